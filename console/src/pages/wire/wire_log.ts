// The lines of the wire that the page holds: bounded, with pause and filters, and paired by exchange.
//
// The server filters too, so that a filter that rarely matches is not drowned out by other lines. Lines are filtered
// again here, because those that came before a filter was set are still held. This module knows no component.

import type { WireLine } from "../../api/types.ts";

/** A line as it is held: `key` is unique on this page, also after the server has started again and counts from 1. */
export interface HeldLine extends WireLine {
  key: number;
  /** The exchange, unique on this page; empty for notifications, which belong to none. */
  group: string;
  /** What the text filter looks at, in small letters; made when it is first needed. */
  text?: string;
}

export interface WireFilter {
  agent: string;
  direction: string;
  operation: string;
  text: string;
  failed_only: boolean;
}

export const NO_FILTER: WireFilter = { agent: "", direction: "", operation: "", text: "", failed_only: false };

export const MOST_LINES = 10_000;
/** Bytes of all bodies that are held: a few large artifacts must not fill the memory of the page. */
export const MOST_BYTES = 64 * 1024 * 1024;
/** Characters of a body that the text filter looks at. */
const MOST_SEARCHED = 20_000;

export class WireLog {
  lines: HeldLine[] = [];
  /** Lines that came while paused, shown on resume. */
  waiting: HeldLine[] = [];
  isPaused = false;
  /** Lines that the server dropped because the page was too slow. */
  missed = 0;
  /** Lines that were dropped here because there were too many, without those that were cleared. */
  dropped = 0;
  private nextKey = 1;
  private bytes = 0;
  private lastNumber = 0;
  private start = 0;

  constructor(
    private readonly mostLines = MOST_LINES,
    private readonly mostBytes = MOST_BYTES,
  ) {}

  add(lines: readonly WireLine[], missed = 0): void {
    this.missed += missed;
    const target = this.isPaused ? this.waiting : this.lines;
    for (const line of lines) {
      if (this.isRepeat(line)) continue;
      target.push(this.hold(line));
      this.bytes += line.size;
    }
    this.bound();
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    this.lines.push(...this.waiting);
    this.waiting = [];
    this.bound();
  }

  clear(): void {
    this.lines = [];
    this.waiting = [];
    this.bytes = 0;
    this.missed = 0;
    this.dropped = 0;
  }

  /** Whether a line was sent again after the stream was interrupted. */
  private isRepeat(line: WireLine): boolean {
    if (line.number > this.lastNumber) return false;
    const known = (held: HeldLine) => held.number === line.number && held.at === line.at;
    return this.waiting.some(known) || this.lines.slice(-500).some(known);
  }

  private hold(line: WireLine): HeldLine {
    if (line.number <= this.lastNumber) this.start += 1; // the server has started again, and counts from 1
    this.lastNumber = line.number;
    return { ...line, key: this.nextKey++, group: line.exchange > 0 ? `${this.start}:${line.exchange}` : "" };
  }

  private bound(): void {
    // What waits is bounded by itself, so that what a reader looks at while paused stays where it is.
    this.drop(this.waiting, this.waiting.length - this.mostLines);
    this.drop(this.lines, this.lines.length - this.mostLines);
    let count = 0;
    for (let over = this.bytes - this.mostBytes; over > 0 && count < this.lines.length - 1; count += 1)
      over -= this.lines[count]!.size;
    this.drop(this.lines, count);
  }

  private drop(lines: HeldLine[], count: number): void {
    if (count <= 0) return;
    for (const line of lines.splice(0, count)) this.bytes -= line.size;
    this.dropped += count;
  }
}

export function matches(line: HeldLine, filter: WireFilter): boolean {
  if (filter.failed_only && !line.failed) return false;
  if (filter.agent && line.agent !== filter.agent) return false;
  if (filter.direction && line.direction !== filter.direction) return false;
  if (filter.operation && line.operation !== filter.operation) return false;
  const text = filter.text.trim().toLowerCase();
  return text === "" || searchText(line).includes(text);
}

function searchText(line: HeldLine): string {
  return (line.text ??= [
    line.what,
    line.operation,
    line.agent,
    line.caller,
    line.version,
    line.binding,
    line.kind,
    ...Object.entries(line.headers).flat(),
    line.body == null ? "" : (JSON.stringify(line.body) ?? "").slice(0, MOST_SEARCHED),
  ]
    .join("\n")
    .toLowerCase());
}

export function isFiltering(filter: WireFilter): boolean {
  return filter.failed_only || [filter.agent, filter.direction, filter.operation, filter.text.trim()].some(Boolean);
}

/** The values that occur, for the lists of the filters. */
export function valuesOf(lines: readonly WireLine[], member: "agent" | "direction" | "operation"): string[] {
  return [...new Set(lines.map((line) => line[member]))].filter(Boolean).sort();
}

// --- both sides of a proxy -------------------------------------------------------------------------------------------

/** A line of the caller's side and its translation on the agent's side; either may be missing. */
export interface Pair {
  key: number;
  near: HeldLine | null;
  far: HeldLine | null;
}

/** Everything of one exchange. `hasFar` says whether an agent elsewhere was called. */
export interface Exchange {
  key: number;
  group: string;
  first: HeldLine;
  pairs: Pair[];
  hasFar: boolean;
  failed: boolean;
  milliseconds: number | null;
}

const FAR = new Set(["proxy → agent", "agent → proxy"]);

export function isFar(line: WireLine): boolean {
  return FAR.has(line.direction);
}

/** The lines by exchange, in the order in which the exchanges began; notifications are exchanges of their own. */
export function exchangesOf(lines: readonly HeldLine[]): Exchange[] {
  const groups = new Map<string, HeldLine[]>();
  for (const line of lines) {
    const group = line.group || `line ${line.key}`;
    const known = groups.get(group);
    if (known) known.push(line);
    else groups.set(group, [line]);
  }
  return [...groups.values()].map(exchangeOf);
}

function exchangeOf(lines: HeldLine[]): Exchange {
  const first = lines[0]!;
  const near = lines.filter((line) => !isFar(line));
  return {
    key: first.key,
    group: first.group,
    first: near[0] ?? first,
    pairs: pairsOf(lines),
    hasFar: near.length < lines.length,
    failed: lines.some((line) => line.failed),
    milliseconds: near.findLast((line) => line.milliseconds !== null)?.milliseconds ?? null,
  };
}

/** Pairs the n-th request, reply or event of one side with the n-th of the other. */
export function pairsOf(lines: readonly HeldLine[]): Pair[] {
  const pairs: Pair[] = [];
  const open = new Map<string, { near: Pair[]; far: Pair[] }>(); // by kind, pairs that lack one side
  for (const line of lines) {
    const side = isFar(line) ? "far" : "near";
    const kind = line.kind === "request" ? "request" : line.kind === "event" ? "event" : "end";
    const lacking = open.get(kind) ?? { near: [], far: [] };
    open.set(kind, lacking);
    const pair = lacking[side].shift();
    if (pair) {
      pair[side] = line;
      continue;
    }
    const made: Pair = { key: line.key, near: null, far: null, [side]: line };
    lacking[side === "near" ? "far" : "near"].push(made);
    pairs.push(made);
  }
  return pairs;
}

/** The line of the other side that says the same as this one. */
export function counterpart(lines: readonly HeldLine[], line: HeldLine): HeldLine | null {
  if (!line.group) return null;
  const pair = pairsOf(lines.filter((other) => other.group === line.group)).find(
    ({ near, far }) => near === line || far === line,
  );
  return (pair && (pair.near === line ? pair.far : pair.near)) ?? null;
}
