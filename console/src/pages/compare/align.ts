// Two tasks beside each other: their events in rows, and their texts in words.
//
// Events are alike if they say the same; ids, times and sizes do not count. Chunks that grow one artifact are one row
// by default, since the same answer is rarely cut at the same places twice.

import { diff } from "./diff.ts";
import type { JsonValue, Task } from "../../a2a/types.ts";
import type { LogEvent } from "../../api/types.ts";
import { kindLabel, listOf, objectOf } from "../../timeline/events.ts";

/** An event, or chunks of one artifact that follow each other. */
export interface Entry {
  kind: string;
  first: number;
  last: number;
  text: string;
}

export interface AlignedRow {
  how: "same" | "changed" | "left" | "right";
  left: Entry | null;
  right: Entry | null;
}

const MAX_ENTRY_TEXT = 20_000;

/** Events as entries that can be compared. */
export function entriesOf(events: readonly LogEvent[], joinChunks: boolean): Entry[] {
  const entries: Entry[] = [];
  let growing: string | null = null;
  for (const event of events) {
    const artifact = event.kind === "artifact" ? artifactId(event) : null;
    const last = entries.at(-1);
    if (joinChunks && last !== undefined && artifact !== null && artifact === growing && objectOf(event.body).append === true) {
      last.last = event.seq;
      if (last.text.length < MAX_ENTRY_TEXT) last.text += textOf(event);
    } else {
      entries.push({ kind: event.kind, first: event.seq, last: event.seq, text: textOf(event) });
    }
    growing = artifact;
  }
  return entries;
}

/** Rows in which equal entries stand beside each other, and differing ones of the same kind too. */
export function align(left: readonly Entry[], right: readonly Entry[]): AlignedRow[] {
  const rows: AlignedRow[] = [];
  const key = (entry: Entry): string => `${entry.kind}\n${entry.text}`;
  for (const block of diff(left.map(key), right.map(key))) {
    if (block.isEqual) {
      for (let offset = 0; offset < block.leftEnd - block.left; offset++) {
        rows.push({ how: "same", left: left[block.left + offset]!, right: right[block.right + offset]! });
      }
    } else {
      pairUp(left.slice(block.left, block.leftEnd), right.slice(block.right, block.rightEnd), rows);
    }
  }
  return rows;
}

/** Entries of the same kind stand beside each other as "changed", in order; the rest has nothing beside it. */
function pairUp(left: Entry[], right: Entry[], rows: AlignedRow[]): void {
  const blocks = diff(left.map((entry) => entry.kind), right.map((entry) => entry.kind));
  for (const block of blocks) {
    if (block.isEqual) {
      for (let offset = 0; offset < block.leftEnd - block.left; offset++) {
        rows.push({ how: "changed", left: left[block.left + offset]!, right: right[block.right + offset]! });
      }
    } else {
      for (const entry of left.slice(block.left, block.leftEnd)) rows.push({ how: "left", left: entry, right: null });
      for (const entry of right.slice(block.right, block.rightEnd)) rows.push({ how: "right", left: null, right: entry });
    }
  }
}

/** Rows without long stretches of equal ones; `hidden` is how many were left out at that point. */
export function folded(rows: readonly AlignedRow[], context = 2): (AlignedRow | { hidden: number; at: number })[] {
  const shown: (AlignedRow | { hidden: number; at: number })[] = [];
  let index = 0;
  while (index < rows.length) {
    if (rows[index]!.how !== "same") {
      shown.push(rows[index++]!);
      continue;
    }
    let end = index;
    while (end < rows.length && rows[end]!.how === "same") end++;
    const before = index === 0 ? 0 : context;
    const after = end === rows.length ? 0 : context;
    if (end - index > before + after + 1) {
      shown.push(...rows.slice(index, index + before), { hidden: end - index - before - after, at: index + before });
      shown.push(...rows.slice(end - after, end));
    } else {
      shown.push(...rows.slice(index, end));
    }
    index = end;
  }
  return shown;
}

export interface TextPiece {
  how: "same" | "left" | "right";
  text: string;
}

const MAX_WORDS = 40_000;

/** Two texts as pieces: what both have, and what only one has; by words, or by lines if they are long. */
export function diffTexts(left: string, right: string): TextPiece[] {
  let a: string[] = left.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  let b: string[] = right.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  if (a.length + b.length > MAX_WORDS) {
    a = left.match(/[^\n]*\n|[^\n]+$/g) ?? [];
    b = right.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  }
  const pieces: TextPiece[] = [];
  for (const block of diff(a, b)) {
    if (block.isEqual) {
      pieces.push({ how: "same", text: a.slice(block.left, block.leftEnd).join("") });
      continue;
    }
    if (block.leftEnd > block.left) pieces.push({ how: "left", text: a.slice(block.left, block.leftEnd).join("") });
    if (block.rightEnd > block.right) pieces.push({ how: "right", text: b.slice(block.right, block.rightEnd).join("") });
  }
  return pieces;
}

/** The texts of a task's artifacts by name, and of its last status. */
export function textsOf(task: Task): Map<string, string> {
  const texts = new Map<string, string>();
  (task.artifacts ?? []).forEach((artifact, index) => {
    const name = artifact.name ?? `artifact ${index + 1}`;
    const key = texts.has(name) ? `${name} (${index + 1})` : name;
    texts.set(key, (artifact.parts ?? []).map((part) => part.text ?? (part.data === undefined ? "" : JSON.stringify(part.data, null, 2))).join(""));
  });
  const status = (task.status.message?.parts ?? []).map((part) => part.text ?? "").join("");
  if (status !== "") texts.set("status message", status);
  return texts;
}

function artifactId(event: LogEvent): string | null {
  const artifact = objectOf(objectOf(event.body).artifact);
  return typeof artifact.artifact_id === "string" ? artifact.artifact_id : null;
}

/** What an event says, without ids and times. */
function textOf(event: LogEvent): string {
  if (event.body === null) return `${event.summary} (${event.size} bytes)`;
  const body = objectOf(event.body);
  switch (event.kind) {
    case "created":
      return String(objectOf(body.status).state ?? "");
    case "status": {
      const status = objectOf(body.status);
      const said = partsText(objectOf(status.message).parts);
      return said === "" ? String(status.state) : `${String(status.state)}: ${said}`;
    }
    case "message-added":
      return `${String(objectOf(body.message).role)}: ${partsText(objectOf(body.message).parts)}`;
    case "artifact":
      return partsText(objectOf(body.artifact).parts);
    case "claimed":
    case "sleep":
      return kindLabel(event.kind);
    default:
      return `${String(body.name ?? "")} ${JSON.stringify(body.value ?? null)}`.slice(0, MAX_ENTRY_TEXT);
  }
}

function partsText(parts: JsonValue | undefined): string {
  return listOf(parts)
    .map((value) => {
      const part = objectOf(value);
      if (typeof part.text === "string") return part.text;
      if (typeof part.url === "string") return part.url;
      if (typeof part.raw === "string") return `${part.raw.length} characters of base64`;
      return JSON.stringify(part.data ?? null);
    })
    .join("");
}
