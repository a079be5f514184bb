// What differs between two constitutions, line by line for long texts and lists, and how two changes are merged.
// A constitution is compared member by member, as GET /v1/agents/ID/diff does.

import { diff } from "../compare/diff.ts";
import type { Row } from "./section.ts";

export interface MemberChange {
  member: string;
  before: unknown;
  after: unknown;
}

export interface DiffLine {
  sign: " " | "-" | "+";
  text: string;
}

/** Lines of both texts together that are compared. */
const MOST_LINES = 2_000;
/** Characters of a text from which on its lines are compared. */
const LONG_TEXT = 80;

/** The difference of two values in lines; null if they are short, or too long to compare. */
export function lineDiff(before: unknown, after: unknown): DiffLine[] | null {
  const [old, now] = [asLines(before), asLines(after)];
  const isLong = old.length > 1 || now.length > 1 || [...old, ...now].some((line) => line.length > LONG_TEXT);
  if (!isLong || old.length + now.length > MOST_LINES) return null;
  return merged(old, now);
}

function asLines(value: unknown): string[] {
  if (value === null || value === undefined || value === "") return [];
  if (Array.isArray(value)) return value.flatMap((item) => asLines(typeof item === "string" ? item || " " : item));
  return (typeof value === "string" ? value : JSON.stringify(value, null, 2)).split("\n");
}

function merged(old: readonly string[], now: readonly string[]): DiffLine[] {
  const signed = (sign: DiffLine["sign"], lines: readonly string[]): DiffLine[] => lines.map((text) => ({ sign, text }));
  return diff(old, now).flatMap(({ isEqual, left, leftEnd, right, rightEnd }) => {
    if (isEqual) return signed(" ", old.slice(left, leftEnd));
    return [...signed("-", old.slice(left, leftEnd)), ...signed("+", now.slice(right, rightEnd))];
  });
}

export interface Hunk {
  /** How many unchanged lines are left out before these. */
  skipped: number;
  lines: DiffLine[];
}

/** The changed lines with some unchanged ones around them. */
export function hunksOf(lines: readonly DiffLine[], around = 2): Hunk[] {
  const isNear = lines.map((_, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some((line) => line.sign !== " "),
  );
  const hunks: Hunk[] = [];
  let skipped = 0;
  lines.forEach((line, index) => {
    if (!isNear[index]) {
      skipped += 1;
      return;
    }
    if (index === 0 || !isNear[index - 1]) {
      hunks.push({ skipped, lines: [] });
      skipped = 0;
    }
    hunks.at(-1)!.lines.push(line);
  });
  return hunks;
}

export function isSame(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value ?? null;
  const names = Object.keys(value).sort();
  return Object.fromEntries(names.map((name) => [name, sorted((value as Row)[name])]));
}

/** The members in which two objects differ. */
export function changesBetween(before: Row, after: Row): MemberChange[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter((name) => !isSame(before[name], after[name]))
    .map((member) => ({ member, before: before[member] ?? null, after: after[member] ?? null }));
}

// --- merging ---------------------------------------------------------------------------------------------------------

export interface MergeMember {
  member: string;
  base: unknown;
  mine: unknown;
  theirs: unknown;
  /** Whether both have changed it, in different ways, so that the user must choose. */
  isConflict: boolean;
}

/** The members that I or another author have changed since the base. Without a base, all that differ are conflicts. */
export function mergeMembers(base: Row | null, mine: Row, theirs: Row): MergeMember[] {
  const names = [...new Set([...Object.keys(theirs), ...Object.keys(mine), ...Object.keys(base ?? {})])];
  return names
    .map((member) => {
      const [old, own, other] = [base?.[member], mine[member], theirs[member]];
      const isConflict = !isSame(own, other) && (base === null || (!isSame(old, own) && !isSame(old, other)));
      return { member, base: old ?? null, mine: own ?? null, theirs: other ?? null, isConflict };
    })
    .filter((each) => !isSame(each.mine, each.theirs) || !isSame(each.base, each.mine));
}

export type Choice = "mine" | "theirs";

/** The merged object: what one author alone has changed is taken, and for conflicts what the user has chosen. */
export function mergedWith(base: Row | null, mine: Row, theirs: Row, choices: Record<string, Choice>): Row {
  const result: Row = { ...theirs };
  for (const each of mergeMembers(base, mine, theirs)) {
    const isMine = each.isConflict ? choices[each.member] === "mine" : isSame(each.base, each.theirs);
    if (!isMine) continue;
    if (each.member in mine) result[each.member] = mine[each.member];
    else delete result[each.member];
  }
  return result;
}
