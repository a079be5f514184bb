// Data as rows: those of a folding tree, and those of a table where the data is one.
// Pure functions over JSON of any size and depth: nothing here recurses, and what is returned is bounded.

import type { JsonObject, JsonValue } from "../a2a/types.ts";

export type Container = JsonValue[] | JsonObject;

export interface TreeRow {
  depth: number;
  /** The name of the member or the number of the item; null for the whole value. */
  name: string | number | null;
  value: JsonValue;
  /** How many members or items; 0 for other values. */
  count: number;
  isOpen: boolean;
  /** Its number among those of its parent, from 1, and how many those are. */
  position: number;
  size: number;
}

/** Rows that a tree shows. */
export const MAX_ROWS = 50_000;

/** Containers with more members are closed at first. */
const OPEN_UP_TO = 50;
const OPEN_DEPTH = 2;

export function isContainer(value: JsonValue | undefined): value is Container {
  return typeof value === "object" && value !== null;
}

export function countOf(value: JsonValue): number {
  if (Array.isArray(value)) return value.length;
  return isContainer(value) ? Object.keys(value).length : 0;
}

/** The containers of a value that are open at first: the outer ones, unless they are large. */
export function openAtFirst(value: JsonValue): Set<Container> {
  const open = new Set<Container>();
  let level: JsonValue[] = [value];
  for (let depth = 0; depth < OPEN_DEPTH; depth++) {
    const next: JsonValue[] = [];
    for (const each of level) {
      if (!isContainer(each) || (depth > 0 && countOf(each) > OPEN_UP_TO)) continue;
      open.add(each);
      if (countOf(each) <= OPEN_UP_TO) next.push(...Object.values(each));
    }
    level = next;
  }
  return open;
}

/** Every container of a value, as far as they fit into the rows of a tree. */
export function allContainers(value: JsonValue): Set<Container> {
  const open = new Set<Container>();
  const waiting: JsonValue[] = [value];
  let rows = 0;
  while (waiting.length > 0 && rows < MAX_ROWS) {
    const each = waiting.pop()!;
    rows++;
    if (!isContainer(each)) continue;
    open.add(each);
    const inside = Object.values(each);
    for (let index = inside.length - 1; index >= 0; index--) waiting.push(inside[index]!);
  }
  return open;
}

interface Cursor {
  names: string[] | null;
  container: Container;
  next: number;
  size: number;
}

/** The rows of a value in which these containers are open, and whether that is all of them. */
export function treeRows(value: JsonValue, open: ReadonlySet<Container>): { rows: TreeRow[]; isWhole: boolean } {
  const rows: TreeRow[] = [];
  const stack: Cursor[] = [];
  const add = (name: string | number | null, each: JsonValue, position: number, size: number) => {
    const count = countOf(each);
    const isOpen = isContainer(each) && open.has(each);
    rows.push({ depth: stack.length, name, value: each, count, isOpen, position, size });
    if (isOpen && isContainer(each)) {
      stack.push({ names: Array.isArray(each) ? null : Object.keys(each), container: each, next: 0, size: count });
    }
  };
  add(null, value, 1, 1);
  while (stack.length > 0) {
    const at = stack.at(-1)!;
    if (at.next >= at.size) {
      stack.pop();
      continue;
    }
    if (rows.length >= MAX_ROWS) return { rows, isWhole: false };
    const index = at.next++;
    const name = at.names ? at.names[index]! : index;
    add(name, (at.container as Record<string | number, JsonValue>)[name]!, index + 1, at.size);
  }
  return { rows, isWhole: true };
}

export interface TableData {
  columns: string[];
  rows: JsonObject[];
}

const MAX_COLUMNS = 30;

/** The data as a table, if it is one: a list of objects without anything inside their members, or an object around one. */
export function tableOf(value: JsonValue): TableData | null {
  if (isContainer(value) && !Array.isArray(value)) {
    const [only, ...more] = Object.values(value);
    return Array.isArray(only) && more.length === 0 ? tableOf(only) : null;
  }
  if (!Array.isArray(value) || value.length === 0) return null;
  const columns = new Set<string>();
  let cells = 0;
  for (const row of value) {
    if (!isContainer(row) || Array.isArray(row)) return null;
    for (const [name, cell] of Object.entries(row)) {
      if (isContainer(cell)) return null;
      columns.add(name);
      cells++;
    }
    if (columns.size > MAX_COLUMNS) return null;
  }
  // Objects that have little in common are a list of different things.
  if (columns.size === 0 || cells < (value.length * columns.size) / 2) return null;
  return { columns: [...columns], rows: value as JsonObject[] };
}

/** The order of two cells: numbers by size, texts by the alphabet, what is missing at the end. */
export function compareCells(one: JsonValue | undefined, other: JsonValue | undefined): number {
  const isMissing = (cell: JsonValue | undefined) => cell === undefined || cell === null;
  if (isMissing(one) || isMissing(other)) return Number(isMissing(one)) - Number(isMissing(other));
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

/** A text that is JSON of some structure, parsed; undefined for any other text. */
export function jsonIn(text: string): Container | undefined {
  const first = /^\s*([[{])/.exec(text.slice(0, 200))?.[1];
  if (!first || text.length > 5_000_000 || !/[\]}]\s*$/.test(text.slice(-200))) return undefined;
  try {
    const value = JSON.parse(text) as JsonValue;
    return isContainer(value) && countOf(value) > 0 ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A value as text with two spaces; a note if it is nested too deeply for that. */
export function jsonText(value: JsonValue): string {
  try {
    return JSON.stringify(value, null, 2);
  } catch {
    return "The data is nested too deeply to be written as text.";
  }
}
