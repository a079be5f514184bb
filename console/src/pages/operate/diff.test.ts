import { describe, expect, test } from "vitest";
import { changesBetween, hunksOf, isSame, lineDiff, mergedWith, mergeMembers } from "./diff.ts";

const text = (lines: { sign: string; text: string }[]) => lines.map((line) => line.sign + line.text);

describe("lines", () => {
  test("a changed line is removed and added, and the others stay", () => {
    expect(text(lineDiff("a\nb\nc", "a\nB\nc\nd")!)).toEqual([" a", "-b", "+B", " c", "+d"]);
  });

  test("lists are compared item by item, and something that was absent is only added", () => {
    expect(text(lineDiff(["x", "y"], ["y", "z"])!)).toEqual(["-x", " y", "+z"]);
    expect(text(lineDiff(null, ["y", "z"])!)).toEqual(["+y", "+z"]);
  });

  test("short values are not compared in lines", () => {
    expect(lineDiff("full", "lite")).toBeNull();
    expect(lineDiff(1, 2)).toBeNull();
  });

  test("texts that are too long are not compared", () => {
    expect(lineDiff("x\n".repeat(1_500), "y\n".repeat(1_500))).toBeNull();
  });

  test("unchanged lines far from a change are left out and counted", () => {
    const before = Array.from({ length: 20 }, (_, number) => `line ${number}`).join("\n");
    const hunks = hunksOf(lineDiff(before, before.replace("line 10", "line ten"))!);
    expect(hunks).toHaveLength(1);
    expect(hunks[0]!.skipped).toBe(8);
    expect(text(hunks[0]!.lines)).toEqual([" line 8", " line 9", "-line 10", "+line ten", " line 11", " line 12"]);
  });
});

describe("members", () => {
  test("the order of members does not matter, and that of items does", () => {
    expect(isSame({ a: 1, b: [1, 2] }, { b: [1, 2], a: 1 })).toBe(true);
    expect(isSame([1, 2], [2, 1])).toBe(false);
    expect(isSame(undefined, null)).toBe(true);
  });

  test("what differs is named with both values", () => {
    expect(changesBetween({ goal: "a", brevity: "full" }, { goal: "b", brevity: "full", rules: ["x"] })).toEqual([
      { member: "goal", before: "a", after: "b" },
      { member: "rules", before: null, after: ["x"] },
    ]);
  });
});

describe("merging", () => {
  const base = { name: "Writer", goal: "Letters.", rules: ["short"], model: "" };
  const mine = { name: "Writer", goal: "Poems.", model: "" }; // I have removed the rules
  const theirs = { name: "Author", goal: "Novels.", rules: ["short"], model: "" };

  test("only what both have changed is a conflict", () => {
    expect(mergeMembers(base, mine, theirs).map((each) => [each.member, each.isConflict])).toEqual([
      ["name", false],
      ["goal", true],
      ["rules", false],
    ]);
  });

  test("what one author alone has changed is kept, and the choice decides the rest", () => {
    expect(mergedWith(base, mine, theirs, { goal: "mine" })).toEqual({ name: "Author", goal: "Poems.", model: "" });
    expect(mergedWith(base, mine, theirs, { goal: "theirs" })).toEqual({ name: "Author", goal: "Novels.", model: "" });
  });

  test("the same change by both is no conflict", () => {
    expect(mergeMembers(base, { ...base, goal: "X" }, { ...base, goal: "X" })).toMatchObject([{ member: "goal", isConflict: false }]);
    expect(mergedWith(base, { ...base, goal: "X" }, { ...base, goal: "X" }, {})).toMatchObject({ goal: "X" });
  });

  test("without the base, everything that differs must be chosen", () => {
    expect(mergeMembers(null, mine, theirs).filter((each) => each.isConflict).map((each) => each.member)).toEqual([
      "name",
      "goal",
      "rules",
    ]);
  });
});
