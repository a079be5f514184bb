// The tree of runs in a document: focus, aria, keys, and growing while it runs.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Tree, TreeNode } from "../api/types.ts";
import { address } from "../router.ts";
import { LiveTree } from "./tree_view.tsx";

const START = Date.parse("2026-11-18T06:00:00Z");
const at = (seconds: number) => new Date(START + seconds * 1000).toISOString();

function node(id: string, parent: string | null, from: number, to: number | null, more: Partial<TreeNode> = {}): TreeNode {
  return {
    id, parent, kind: "step", name: id, task: null, agent: null, state: to === null ? "working" : "completed",
    started_at: at(from), ended_at: to === null ? null : at(to), detail: "", error: "",
    input_tokens: 0, output_tokens: 0, cost: null, currency: "", seq: null, approval: null, ...more,
  };
}

const NODES = [
  node("root", null, 0, null, { kind: "task", task: "t1", agent: "index" }),
  node("a", "root", 1, 4, { kind: "delegate", task: "t2", agent: "calculator" }),
  node("a1", "a", 1, 2, { seq: 7 }),
  node("b", "root", 5, null, { kind: "approval", approval: "ap 1" }),
];

function tree(nodes: TreeNode[]): Tree {
  return { root: "root", now: at(10), is_live: true, nodes };
}

let box: HTMLElement;

beforeEach(() => {
  box = document.body.appendChild(document.createElement("div"));
});

afterEach(() => {
  act(() => render(null, box));
  box.remove();
});

function show(nodes: TreeNode[]): void {
  act(() => render(<LiveTree tree={tree(nodes)} receivedAt={Date.now()} agent="index" id="t1" />, box));
}

function press(key: string): void {
  const target = document.activeElement?.closest("[role=row]") ?? box.querySelector("[role=row][tabindex='0']")!;
  act(() => void target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
}

function rows(): string[] {
  return [...box.querySelectorAll(".tree-row")].map((row) => `${row.getAttribute("aria-level")} ${row.querySelector("bdi")!.textContent}`);
}

const focused = () => document.activeElement?.querySelector("bdi")?.textContent;

describe("the tree of runs", () => {
  it("is a tree grid of which one row can be reached with the Tab key", () => {
    show(NODES);
    expect(rows()).toEqual(["1 root", "2 a", "3 a1", "2 b"]);
    expect(box.querySelectorAll("[role=treegrid] [role=row][tabindex='0']")).toHaveLength(1);
    const second = box.querySelectorAll(".tree-row")[1]!;
    expect(["aria-expanded", "aria-posinset", "aria-setsize", "aria-rowindex"].map((name) => second.getAttribute(name))).toEqual(["true", "1", "2", "3"]);
  });

  it("moves the focus with the arrow keys, and collapses and expands", () => {
    show(NODES);
    press("ArrowDown");
    expect(focused()).toBe("a");
    press("ArrowLeft");
    expect(rows()).toEqual(["1 root", "2 a", "2 b"]);
    expect(focused()).toBe("a");
    press("ArrowRight");
    press("ArrowRight");
    expect(focused()).toBe("a1");
    press("End");
    expect(focused()).toBe("b");
  });

  it("zooms to a node with z, and out with Escape", () => {
    show(NODES);
    press("ArrowDown");
    press("z");
    expect(rows()).toEqual(["1 a", "2 a1"]);
    expect(box.querySelector(".tree-path")?.textContent).toContain("root");
    press("Escape");
    expect(rows()).toHaveLength(4);
  });

  it("leads from a node to its task, and from a step to its event", () => {
    show(NODES);
    press("ArrowDown");
    press("Enter");
    expect(address.value).toBe("/console/tasks/calculator/t2");
    press("ArrowDown");
    press("Enter");
    expect(address.value).toBe("/console/tasks/calculator/t2?at=7&view=timeline");
  });

  it("leads from a step that waits to its approval", () => {
    show(NODES);
    press("End");
    const links = [...box.querySelectorAll(".tree-detail a")].map((link) => link.getAttribute("href"));
    expect(links).toContain("/console/approvals?id=ap%201");
  });

  it("keeps the focus and what is collapsed while the tree grows", () => {
    show(NODES);
    press("ArrowDown");
    press("ArrowLeft");
    show([...NODES, node("c", "root", 6, null), node("a2", "a", 3, 4)]);
    expect(rows()).toEqual(["1 root", "2 a", "2 b", "2 c"]);
    expect(focused()).toBe("a");
    expect(box.querySelector(".tree-sums")?.textContent).toContain("6 nodes");
  });

  it("has only some rows of 2,000 in the document", () => {
    show([NODES[0]!, ...Array.from({ length: 1999 }, (_, index) => node(`n${index}`, "root", index, index + 1))]);
    expect(box.querySelectorAll(".tree-row").length).toBeLessThan(100);
    expect(box.querySelector("[role=treegrid]")?.getAttribute("aria-rowcount")).toBe("2001");
    press("End");
    expect(focused()).toBe("n1998");
  });

  it("shows names as text, whatever they hold", () => {
    show([node("x", null, 0, 1, { name: "<img src=x onerror=alert(1)>\u202e" })]);
    expect(box.querySelector("img")).toBeNull();
    expect(box.querySelector("bdi")!.textContent).toBe("<img src=x onerror=alert(1)>⟨U+202E⟩");
  });
});
