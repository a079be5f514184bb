// A tree of runs as rows: nesting, what is collapsed, sums of tokens and cost, and the moments of each node.
//
// Nodes come from the server in the order in which they began. Whatever their parents claim, every node is shown once:
// a parent that is unknown, or that is a descendant, counts as none.

import type { Tree, TreeNode } from "../api/types.ts";

export interface Sums {
  inputTokens: number;
  outputTokens: number;
  /** By currency, since amounts of different ones do not add up. */
  cost: ReadonlyMap<string, number>;
  errors: number;
  waiting: number;
  nodes: number;
}

export interface TreeRow {
  node: TreeNode;
  /** 1 for the topmost. */
  level: number;
  /** Its place among its siblings, from 1 on, and how many there are. */
  position: number;
  siblings: number;
  hasChildren: boolean;
  isExpanded: boolean;
  start: number;
  /** The end, or for what runs the present. */
  end: number;
  isRunning: boolean;
  /** Of the node with everything below it. */
  sums: Sums;
}

interface Branch {
  node: TreeNode;
  children: Branch[];
  start: number;
  end: number;
  isRunning: boolean;
  sums: Sums;
}

/** The branches of a tree, with sums; made once for each tree that arrives. */
export class TreeModel {
  readonly now: number;
  readonly isLive: boolean;
  private readonly roots: Branch[] = [];
  private readonly branches = new Map<string, Branch>();

  constructor(tree: Tree) {
    this.now = Date.parse(tree.now);
    this.isLive = tree.is_live;
    for (const node of tree.nodes) {
      if (!this.branches.has(node.id)) this.branches.set(node.id, this.branchOf(node));
    }
    for (const branch of this.branches.values()) {
      const parent = this.parentOf(branch);
      (parent?.children ?? this.roots).push(branch);
    }
    for (const root of this.roots) addSums(root);
  }

  get size(): number {
    return this.branches.size;
  }

  get sums(): Sums {
    return this.roots.map((root) => root.sums).reduce(added, nothing());
  }

  has(id: string): boolean {
    return this.branches.has(id);
  }

  node(id: string): TreeNode | null {
    return this.branches.get(id)?.node ?? null;
  }

  /** The ids of a node's ancestors, from the topmost on. */
  ancestors(id: string): string[] {
    const path: string[] = [];
    const start = this.branches.get(id);
    for (let branch = start && this.parentOf(start); branch; branch = this.parentOf(branch)) path.unshift(branch.node.id);
    return path;
  }

  /** Rows from the top down; those below a collapsed node are left out. `zoom` shows only this node and what is below. */
  rows(collapsed: ReadonlySet<string>, zoom: string | null = null): TreeRow[] {
    const rows: TreeRow[] = [];
    const zoomed = zoom === null ? undefined : this.branches.get(zoom);
    const top = zoomed === undefined ? this.roots : [zoomed];
    const stack = top.map((branch, index) => ({ branch, level: 1, position: index + 1, siblings: top.length })).reverse();
    for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
      const { branch, level } = entry;
      const hasChildren = branch.children.length > 0;
      const isExpanded = hasChildren && !collapsed.has(branch.node.id);
      const { node, start, end, isRunning, sums } = branch;
      rows.push({ node, level, position: entry.position, siblings: entry.siblings, hasChildren, isExpanded, start, end, isRunning, sums });
      if (!isExpanded) continue;
      for (let index = branch.children.length - 1; index >= 0; index--) {
        stack.push({ branch: branch.children[index]!, level: level + 1, position: index + 1, siblings: branch.children.length });
      }
    }
    return rows;
  }

  /** The moments from the first beginning to the last end, of everything or below a node. */
  extent(zoom: string | null = null): Extent {
    let start = Infinity;
    let end = -Infinity;
    for (const row of this.rows(new Set(), zoom)) {
      start = Math.min(start, row.start);
      end = Math.max(end, row.end);
    }
    if (start === Infinity) return { start: this.now, end: this.now + 1 };
    return { start, end: Math.max(end, start + 1) };
  }

  private branchOf(node: TreeNode): Branch {
    const start = node.started_at === null ? this.now : Date.parse(node.started_at);
    const isRunning = node.ended_at === null && this.isLive && !hasEnded(node.state);
    const end = node.ended_at !== null ? Date.parse(node.ended_at) : isRunning ? this.now : start;
    return { node, children: [], start, end: Math.max(start, end), isRunning, sums: nothing() };
  }

  private parentOf(branch: Branch): Branch | null {
    const parent = branch.node.parent === null ? undefined : this.branches.get(branch.node.parent);
    if (parent === undefined || this.isBelow(parent, branch)) return null;
    return parent;
  }

  private isBelow(branch: Branch, above: Branch): boolean {
    let steps = 0;
    for (let at: Branch | undefined = branch; at !== undefined; at = at.node.parent === null ? undefined : this.branches.get(at.node.parent)) {
      if (at === above) return true;
      if (++steps > this.branches.size) return true; // a loop further up
    }
    return false;
  }
}

export interface Extent {
  start: number;
  end: number;
}

/** Where a bar lies in a window of time, in per cent; never so narrow that it cannot be seen. */
export function barOf(row: Extent, window: Extent): { left: number; width: number } {
  const length = window.end - window.start;
  const left = clamp(((row.start - window.start) / length) * 100);
  const right = clamp(((row.end - window.start) / length) * 100);
  const width = Math.max(0.4, right - left);
  return { left: Math.min(left, 100 - width), width };
}

/** Round moments for the axis of a window: milliseconds since its start, at most `count` of them. */
export function ticksOf(window: Extent, count = 5): number[] {
  const length = window.end - window.start;
  const raw = length / count;
  const magnitude = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * magnitude).find((size) => size >= raw) ?? raw;
  const ticks: number[] = [];
  for (let tick = 0; tick <= length && ticks.length <= count; tick += step) ticks.push(tick);
  return ticks;
}

const ENDED = new Set(["completed", "failed", "canceled", "rejected", "done", "error", "denied", "expired", "withdrawn"]);

function hasEnded(state: string): boolean {
  return ENDED.has(state);
}

/** The id of the approval that a node waits for. */
export function approvalOf(node: TreeNode): string | null {
  return node.approval || null;
}

/** Whether a node waits for a person. */
export function isWaiting(node: TreeNode): boolean {
  return node.ended_at === null && (approvalOf(node) !== null || node.kind === "question");
}

function nothing(): Sums {
  return { inputTokens: 0, outputTokens: 0, cost: new Map(), errors: 0, waiting: 0, nodes: 0 };
}

function ownSums(node: TreeNode): Sums {
  const amount = node.cost === null ? 0 : Number(node.cost);
  return {
    inputTokens: node.input_tokens,
    outputTokens: node.output_tokens,
    cost: Number.isFinite(amount) && amount !== 0 ? new Map([[node.currency, amount]]) : new Map(),
    errors: node.error !== "" ? 1 : 0,
    waiting: isWaiting(node) ? 1 : 0,
    nodes: 1,
  };
}

function added(left: Sums, right: Sums): Sums {
  const cost = new Map(left.cost);
  for (const [currency, amount] of right.cost) cost.set(currency, (cost.get(currency) ?? 0) + amount);
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    cost,
    errors: left.errors + right.errors,
    waiting: left.waiting + right.waiting,
    nodes: left.nodes + right.nodes,
  };
}

/** A node's own figures, or those of what is below it if they are greater: tasks may name the sum of their calls. */
function atLeast(below: Sums, node: TreeNode): Sums {
  const own = ownSums(node);
  const cost = new Map(below.cost);
  for (const [currency, amount] of own.cost) cost.set(currency, Math.max(amount, cost.get(currency) ?? 0));
  return {
    inputTokens: Math.max(own.inputTokens, below.inputTokens),
    outputTokens: Math.max(own.outputTokens, below.outputTokens),
    cost,
    errors: own.errors + below.errors,
    waiting: own.waiting + below.waiting,
    nodes: own.nodes + below.nodes,
  };
}

/** Sums from the leaves up, without recursion: a chain of 2,000 delegations is deeper than some stacks. */
function addSums(root: Branch): void {
  const order: Branch[] = [root];
  for (let index = 0; index < order.length; index++) order.push(...order[index]!.children);
  for (const branch of order.reverse()) {
    branch.sums = atLeast(branch.children.map((child) => child.sums).reduce(added, nothing()), branch.node);
  }
}

function clamp(percent: number): number {
  return Math.min(100, Math.max(0, percent));
}
