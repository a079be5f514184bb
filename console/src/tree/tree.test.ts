// Trees of runs: rows, sums, running nodes, odd parents, and the keyboard.

import { describe, expect, it } from "vitest";
import type { Tree, TreeNode } from "../api/types.ts";
import { treeAction } from "./keyboard.ts";
import { barOf, ticksOf, TreeModel } from "./model.ts";
import { cpuTime } from "../testing/cpu_time.ts";

const START = Date.parse("2026-11-18T06:00:00Z");

function at(seconds: number): string {
  return new Date(START + seconds * 1000).toISOString();
}

function node(id: string, parent: string | null, from: number, to: number | null, more: Partial<TreeNode> = {}): TreeNode {
  return {
    id, parent, kind: "step", name: id, task: null, agent: null, state: to === null ? "working" : "completed",
    started_at: at(from), ended_at: to === null ? null : at(to), detail: "", error: "",
    input_tokens: 0, output_tokens: 0, cost: null, currency: "", seq: null, approval: null, ...more,
  };
}

function tree(...nodes: TreeNode[]): Tree {
  return { root: nodes[0]?.id ?? "", now: at(10), is_live: true, nodes };
}

const SAMPLE = tree(
  node("root", null, 0, null, { kind: "task" }),
  node("a", "root", 1, 4),
  node("a1", "a", 1, 2, { kind: "model", input_tokens: 100, output_tokens: 20, cost: "0.0125", currency: "USD" }),
  node("a2", "a", 2, 4, { error: "boom" }),
  node("b", "root", 5, null, { kind: "approval", approval: "ap-1" }),
  node("b1", "b", 6, 7, { kind: "model", input_tokens: 5, cost: 0.5, currency: "EUR" }),
);

function names(model: TreeModel, collapsed: string[] = [], zoom: string | null = null): string[] {
  return model.rows(new Set(collapsed), zoom).map((row) => `${"  ".repeat(row.level - 1)}${row.node.id}`);
}

describe("a tree of runs", () => {
  it("nests rows by parents, and leaves out what is collapsed or not zoomed to", () => {
    const model = new TreeModel(SAMPLE);
    expect(names(model)).toEqual(["root", "  a", "    a1", "    a2", "  b", "    b1"]);
    expect(names(model, ["a"])).toEqual(["root", "  a", "  b", "    b1"]);
    expect(names(model, [], "a")).toEqual(["a", "  a1", "  a2"]);
    expect(model.ancestors("a1")).toEqual(["root", "a"]);
    expect(model.rows(new Set())[4]).toMatchObject({ level: 2, position: 2, siblings: 2, hasChildren: true });
  });

  it("lets running nodes reach to the present, and ended ones to their end", () => {
    const rows = new TreeModel(SAMPLE).rows(new Set());
    expect(rows.map((row) => [row.isRunning, row.end - START])).toEqual([
      [true, 10_000], [false, 4_000], [false, 2_000], [false, 4_000], [true, 10_000], [false, 7_000],
    ]);
    const over = new TreeModel({ ...SAMPLE, is_live: false }).rows(new Set());
    expect(over[0]).toMatchObject({ isRunning: false, end: START });
  });

  it("adds up tokens, errors and waiting approvals, and cost by currency", () => {
    const model = new TreeModel(SAMPLE);
    expect(model.sums).toEqual({
      inputTokens: 105, outputTokens: 20, cost: new Map([["USD", 0.0125], ["EUR", 0.5]]), errors: 1, waiting: 1, nodes: 6,
    });
    expect(model.rows(new Set())[1]!.sums).toMatchObject({ inputTokens: 100, errors: 1, waiting: 0, nodes: 3 });
  });

  it("does not count calls twice that a task names together", () => {
    const call = { kind: "model", input_tokens: 100, output_tokens: 20, cost: "0.5", currency: "USD" } as const;
    const model = new TreeModel(tree(
      node("root", null, 0, 9, { kind: "task", input_tokens: 200, output_tokens: 40, cost: "1", currency: "USD" }),
      node("m1", "root", 1, 2, call), node("m2", "root", 2, 3, call), node("sub", "root", 3, 4, { ...call, kind: "task" }), node("m3", "sub", 3, 4, call),
    ));
    expect(model.sums).toMatchObject({ inputTokens: 300, outputTokens: 60, cost: new Map([["USD", 1.5]]), nodes: 5 });
  });

  it("shows every node once, whatever its parent claims", () => {
    const odd = tree(node("x", "y", 0, 1), node("y", "x", 0, 1), node("z", "nowhere", 0, 1), node("s", "s", 0, 1), node("z", null, 5, 6));
    const shown = new TreeModel(odd).rows(new Set()).map((row) => row.node.id);
    expect(shown.toSorted()).toEqual(["s", "x", "y", "z"]);
  });

  it("lays out 2,000 nodes, deep or wide, in a few milliseconds", () => {
    const deep = tree(...Array.from({ length: 2000 }, (_, index) => node(`n${index}`, index ? `n${index - 1}` : null, index, index + 1)));
    const wide = tree(node("n0", null, 0, 1), ...Array.from({ length: 1999 }, (_, index) => node(`n${index + 1}`, "n0", index, index + 1)));
    for (const each of [deep, wide]) {
      const began = cpuTime();
      expect(new TreeModel(each).rows(new Set())).toHaveLength(2000);
      expect(cpuTime() - began).toBeLessThan(400);
    }
  });

  it("places bars within the window, never too narrow to see", () => {
    const window = { start: START, end: START + 10_000 };
    expect(barOf({ start: START + 2_500, end: START + 5_000 }, window)).toEqual({ left: 25, width: 25 });
    expect(barOf({ start: START + 10_000, end: START + 10_000 }, window)).toEqual({ left: 99.6, width: 0.4 });
    expect(barOf({ start: START - 5_000, end: START + 99_000 }, window)).toEqual({ left: 0, width: 100 });
    expect(ticksOf(window)).toEqual([0, 2000, 4000, 6000, 8000, 10_000]);
    expect(ticksOf({ start: 0, end: 1 }).length).toBeGreaterThan(1);
  });

  it("has an extent even without nodes", () => {
    const extent = new TreeModel({ root: "", now: at(3), is_live: false, nodes: [] }).extent();
    expect(extent.end).toBeGreaterThan(extent.start);
  });
});

describe("the keyboard of a tree", () => {
  const model = new TreeModel(SAMPLE);
  const rows = model.rows(new Set(["b"])); // root, a, a1, a2, b (collapsed)

  it.each([
    ["ArrowDown", 0, { do: "focus", index: 1 }],
    ["ArrowDown", 4, { do: "focus", index: 4 }],
    ["ArrowUp", 0, { do: "focus", index: 0 }],
    ["End", 0, { do: "focus", index: 4 }],
    ["Home", 3, { do: "focus", index: 0 }],
    ["PageDown", 0, { do: "focus", index: 4 }],
    ["ArrowRight", 4, { do: "expand", index: 4 }],
    ["ArrowRight", 1, { do: "focus", index: 2 }],
    ["ArrowRight", 2, null],
    ["ArrowLeft", 1, { do: "collapse", index: 1 }],
    ["ArrowLeft", 3, { do: "focus", index: 1 }],
    ["ArrowLeft", 4, { do: "focus", index: 0 }],
    ["Enter", 2, { do: "open", index: 2 }],
    [" ", 4, { do: "expand", index: 4 }],
    [" ", 2, null],
    ["z", 1, { do: "zoom", index: 1 }],
    ["Escape", 1, { do: "zoom-out" }],
    ["q", 1, null],
  ])("%s in row %i", (key, index, action) => {
    expect(treeAction(key, rows, index)).toEqual(action);
  });

  it("starts at the first row if the focused one is gone", () => {
    expect(treeAction("ArrowDown", rows, 99)).toEqual({ do: "focus", index: 0 });
    expect(treeAction("ArrowDown", [], 0)).toBeNull();
  });
});
