import { describe, expect, test } from "vitest";
import { Heights } from "./heights.ts";
import { nextIndex } from "./virtual_list.tsx";

/** What Heights must agree with: plain sums. */
function sums(heights: number[]): number[] {
  return heights.reduce((all, height) => [...all, all.at(-1)! + height], [0]);
}

describe("heights of rows", () => {
  test("agree with plain sums after any measurements", () => {
    const known = [20, 20, 55, 20, 7, 20, 130, 20, 20];
    const heights = new Heights(20);
    heights.resize(9);
    known.forEach((height, row) => heights.set(row, height));
    const offsets = sums(known);
    expect(offsets.map((_, row) => heights.offset(row))).toEqual(offsets);
    expect(heights.total).toBe(312);
    for (let offset = 0; offset < 312; offset++) {
      expect(heights.rowAt(offset)).toBe(offsets.findLastIndex((top) => top <= offset));
    }
    expect([heights.rowAt(-5), heights.rowAt(312), heights.rowAt(9999)]).toEqual([0, 8, 8]);
  });

  test("stay known when rows come at the end, and move when they come first", () => {
    const heights = new Heights(10);
    heights.resize(3);
    heights.set(1, 50);
    heights.resize(5);
    expect([heights.offset(2), heights.total]).toEqual([60, 90]);
    heights.prepend(2);
    expect([heights.get(1), heights.get(3), heights.offset(4), heights.total]).toEqual([10, 50, 80, 110]);
    heights.resize(1);
    expect(heights.total).toBe(10);
    heights.resize(3);
    expect(heights.total).toBe(30);
  });

  test("give the rows of a window, with some more", () => {
    const heights = new Heights(30);
    expect(heights.window(0, 600, 5)).toEqual([0, 0]);
    heights.resize(100_000);
    expect(heights.window(0, 600, 5)).toEqual([0, 26]);
    expect(heights.window(1_500_000, 600, 5)).toEqual([49_995, 50_026]);
    expect(heights.window(3_000_000, 600, 5)).toEqual([99_994, 100_000]);
  });

  test("of 100,000 rows are measured and found in a few steps each", () => {
    const heights = new Heights(30);
    heights.resize(100_000);
    for (let row = 0; row < 100_000; row++) heights.set(row, 20 + (row % 50));
    let last = 0;
    for (let offset = 0; offset < heights.total; offset += 100) last = heights.rowAt(offset);
    expect(last).toBeGreaterThan(99_990);
  });
});

test("keys move within a list and stop at its ends", () => {
  expect(["ArrowDown", "j", "ArrowUp", "k", "Home", "End", "PageDown", "PageUp", "x"].map((key) => nextIndex(key, 5, 20, 10))).toEqual([6, 6, 4, 4, 0, 19, 15, 0, null]);
  expect([nextIndex("ArrowDown", -1, 20, 10), nextIndex("ArrowUp", -1, 20, 10), nextIndex("ArrowDown", 19, 20, 10)]).toEqual([0, 0, 19]);
});
