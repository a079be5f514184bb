// Data as a tree and as a table, of any size and depth.

import { describe, expect, test } from "vitest";
import type { JsonValue } from "../a2a/types.ts";
import { allContainers, compareCells, jsonIn, jsonText, MAX_ROWS, openAtFirst, tableOf, treeRows, type Container } from "./data_rows.ts";

const names = (value: JsonValue, open: Set<Container>) => treeRows(value, open).rows.map((row) => [row.depth, row.name]);

describe("a tree", () => {
  const value = { a: { b: [1, 2] }, c: "text" };

  test("shows the outer levels at first", () => {
    expect(names(value, openAtFirst(value))).toEqual([[0, null], [1, "a"], [2, "b"], [1, "c"]]);
  });

  test("shows what is inside of what is open, and nothing else", () => {
    expect(names(value, new Set())).toEqual([[0, null]]);
    expect(names(value, allContainers(value))).toEqual([[0, null], [1, "a"], [2, "b"], [3, 0], [3, 1], [1, "c"]]);
  });

  test("says where each row stands among its siblings", () => {
    const last = treeRows(value, openAtFirst(value)).rows.at(-1)!;
    expect([last.position, last.size, last.count, last.isOpen]).toEqual([2, 2, 0, false]);
  });

  test("keeps large lists closed at first, unless they are the whole value", () => {
    const large = Array.from({ length: 1000 }, (_, index) => index);
    const around = { large };
    expect(treeRows(around, openAtFirst(around)).rows).toHaveLength(2);
    expect(treeRows(large, openAtFirst(large)).rows).toHaveLength(1001);
  });

  test("is bounded", () => {
    const huge = Array.from({ length: MAX_ROWS + 100 }, () => 0);
    const found = treeRows(huge, new Set([huge]));
    expect([found.rows.length, found.isWhole]).toEqual([MAX_ROWS, false]);
  });

  test("takes data that is nested 100,000 deep", () => {
    const deep = JSON.parse("[".repeat(100_000) + "]".repeat(100_000)) as JsonValue;
    expect(treeRows(deep, allContainers(deep)).rows.at(-1)!.depth).toBe(MAX_ROWS - 1);
    expect(treeRows(deep, openAtFirst(deep)).rows).toHaveLength(3);
    expect(jsonText(deep)).toMatch(/nested too deeply|\[/);
  });

  test("members named like those of objects are only members", () => {
    const odd = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2, "length": 3}') as JsonValue;
    expect(names(odd, allContainers(odd)).map(([, name]) => name)).toEqual([null, "__proto__", "a", "constructor", "length"]);
  });
});

describe("a table", () => {
  test("is a list of flat objects with much in common", () => {
    const rows = [{ id: 1, name: "a" }, { id: 2, name: null }, { id: 3 }];
    expect(tableOf(rows)).toEqual({ columns: ["id", "name"], rows });
    expect(tableOf({ rows })).toEqual(tableOf(rows));
  });

  test("is nothing else", () => {
    const none: JsonValue[] = [
      [], {}, { a: [1] }, { a: [{ b: 1 }], c: 2 }, "text", 1, null, [1, 2], [[1], [2]], [{ a: { b: 1 } }], [{ a: [1] }], [{}], [{ a: 1 }, 2], [{ a: 1 }, null],
      [{ a: 1 }, { b: 1 }, { c: 1 }], [Object.fromEntries(Array.from({ length: 31 }, (_, index) => [`c${index}`, index]))],
    ];
    for (const value of none) expect(tableOf(value)).toBeNull();
  });

  test("sorts numbers by size, text by the alphabet, and what is missing to the end", () => {
    expect([10, 9, null, 1].sort(compareCells)).toEqual([1, 9, 10, null]);
    expect(["b10", "b9", "a"].sort(compareCells)).toEqual(["a", "b9", "b10"]);
  });
});

test("text that is JSON of some structure is data", () => {
  expect(jsonIn(' {"a": 1}\n')).toEqual({ a: 1 });
  for (const text of ["12", '"text"', "{}", "[]", "{not json}", "[1] and more", "a {}", ""]) expect(jsonIn(text)).toBeUndefined();
});
