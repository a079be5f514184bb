// Two tasks beside each other: differences of sequences, of events and of texts.

import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../a2a/types.ts";
import type { LogEvent } from "../../api/types.ts";
import { align, diffTexts, entriesOf, folded } from "./align.ts";
import { diff, type Block } from "./diff.ts";
import { cpuTime } from "../../testing/cpu_time.ts";

/** Both sequences, put together again from the blocks. */
function rebuilt(blocks: Block[], left: string[], right: string[]): [string[], string[]] {
  const a = blocks.flatMap((block) => left.slice(block.left, block.leftEnd));
  const b = blocks.flatMap((block) => right.slice(block.right, block.rightEnd));
  for (const block of blocks.filter((each) => each.isEqual)) {
    expect(left.slice(block.left, block.leftEnd)).toEqual(right.slice(block.right, block.rightEnd));
  }
  return [a, b];
}

function longestCommon(a: string[], b: string[]): number {
  const lengths = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let x = 1; x <= a.length; x++) {
    for (let y = 1; y <= b.length; y++) {
      lengths[x]![y] = a[x - 1] === b[y - 1] ? lengths[x - 1]![y - 1]! + 1 : Math.max(lengths[x - 1]![y]!, lengths[x]![y - 1]!);
    }
  }
  return lengths[a.length]![b.length]!;
}

function randomWords(seed: number, length: number): string[] {
  let state = seed;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return "abcde"[(state >>> 16) % 5]!;
  });
}

describe("the difference of two sequences", () => {
  it.each(Array.from({ length: 30 }, (_, index) => index))("is complete and as short as can be (%i)", (seed) => {
    const left = randomWords(seed, seed);
    const right = randomWords(seed + 50, 30 - seed);
    const blocks = diff(left, right);
    expect(rebuilt(blocks, left, right)).toEqual([left, right]);
    const equal = blocks.filter((block) => block.isEqual).reduce((sum, block) => sum + block.leftEnd - block.left, 0);
    expect(equal).toBe(longestCommon(left, right));
  });

  it("is complete, and finds what occurs once, beyond the bound on edits", () => {
    const left = [...randomWords(1, 300), "anchor", ...randomWords(2, 300)];
    const right = [...randomWords(3, 280), "anchor", ...randomWords(4, 310)];
    const blocks = diff(left, right, 20);
    expect(rebuilt(blocks, left, right)).toEqual([left, right]);
    expect(blocks.some((block) => block.isEqual && left.slice(block.left, block.leftEnd).includes("anchor"))).toBe(true);
  });

  it("of 20,000 values that have nothing in common takes less than a second", () => {
    const left = Array.from({ length: 20_000 }, (_, index) => `l${index}`);
    const right = Array.from({ length: 20_000 }, (_, index) => `r${index}`);
    const began = cpuTime();
    expect(diff(left, right)).toEqual([{ isEqual: false, left: 0, leftEnd: 20_000, right: 0, rightEnd: 20_000 }]);
    expect(cpuTime() - began).toBeLessThan(1_000);
  });
});

function event(seq: number, kind: string, body: JsonObject | null): LogEvent {
  return { seq, kind, at: null, size: 1, pause_ms: null, summary: "", is_streamed: true, body };
}

function chunk(seq: number, artifact: string, text: string, append = true): LogEvent {
  return event(seq, "artifact", { artifact: { artifact_id: artifact, parts: [{ type: "text", text }] }, append });
}

function status(seq: number, state: string): LogEvent {
  return event(seq, "status", { status: { state, timestamp: `2026-11-18T06:00:0${seq}Z` } });
}

describe("two tasks", () => {
  it("are alike if they say the same, however the text was cut and whatever the ids are", () => {
    const left = entriesOf([status(1, "working"), chunk(2, "a", "Par", false), chunk(3, "a", "is"), status(4, "completed")], true);
    const right = entriesOf([status(1, "working"), chunk(2, "b", "P", false), chunk(3, "b", "ar"), chunk(4, "b", "is"), status(5, "completed")], true);
    expect(align(left, right).map((row) => row.how)).toEqual(["same", "same", "same"]);
    expect(right[1]).toMatchObject({ first: 2, last: 4, text: "Paris" });
  });

  it("show what changed beside each other, and what only one has alone", () => {
    const left = entriesOf([status(1, "working"), chunk(2, "a", "Paris", false), status(3, "completed")], true);
    const right = entriesOf([status(1, "working"), chunk(2, "b", "Lyon", false), event(3, "note", { name: "n", value: {} }), status(4, "failed")], true);
    expect(align(left, right).map((row) => [row.how, row.left?.text, row.right?.text])).toEqual([
      ["same", "working", "working"],
      ["changed", "Paris", "Lyon"],
      ["right", undefined, "n {}"],
      ["changed", "completed", "failed"],
    ]);
  });

  it("do not show long stretches of equal events", () => {
    const events = Array.from({ length: 50 }, (_, index) => event(index + 1, "note", { name: `n${index}`, value: {} }));
    const changed = events.map((each, index) => (index === 25 ? event(26, "note", { name: "other", value: {} }) : each));
    const rows = folded(align(entriesOf(events, true), entriesOf(changed, true)));
    expect(rows.map((row) => ("hidden" in row ? row.hidden : row.how))).toEqual([
      23, "same", "same", "changed", "same", "same", 22,
    ]);
  });
});

describe("two texts", () => {
  it("differ by words", () => {
    expect(diffTexts("The cat sat.", "The dog sat.")).toEqual([
      { how: "same", text: "The " },
      { how: "left", text: "cat" },
      { how: "right", text: "dog" },
      { how: "same", text: " sat." },
    ]);
  });

  it("that are long differ by lines, and nothing is lost", () => {
    const left = Array.from({ length: 9_000 }, (_, index) => `line ${index} says ${index % 7}`).join("\n");
    const right = left.replace("line 5000 says", "line 5000 asks");
    const pieces = diffTexts(left, right);
    expect(pieces.filter((piece) => piece.how !== "right").map((piece) => piece.text).join("")).toBe(left);
    expect(pieces.filter((piece) => piece.how !== "left").map((piece) => piece.text).join("")).toBe(right);
    expect(pieces.map((piece) => piece.how)).toEqual(["same", "left", "right", "same"]);
  });
});
