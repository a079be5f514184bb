// Cuts Markdown that grows into blocks, so that finished blocks are read once and only the open tail is read again.
// A cut depends on the text alone and never on how it came in pieces: the blocks of a text are the same in the end.
// Fenced code may be very long, so it is found here. Blocks are bounded: what is longer is cut at a line. So is their number: a
// text of a million characters may have a million elements, which browsers take minutes for, so its rest stays as written.

import { safeText } from "../text/safe.ts";
import { closesFence, fenceOf, isItem, placedBlocks, type Fence, type MarkdownBlock } from "./markdown_lines.ts";

/** A finished or open piece of a text: one block, or several where a long one was cut. */
export interface Piece {
  raw: string;
  blocks: MarkdownBlock[];
}

/** Characters of one piece. A longer list or paragraph goes on in another one. */
export const MAX_PIECE = 24_000;

/** Characters of one piece of code. */
export const MAX_CODE = 200_000;

/** Elements of one text from which on its rest is shown as it was written. */
export const MAX_ELEMENTS = 10_000;

/** The pieces of a text that grows. `finished` only ever gets longer; `open` is what may still change. */
export class MarkdownPieces {
  readonly finished: Piece[] = [];
  open: Piece | null = null;
  private text = "";
  private tail = "";
  private elements = 0;

  /** Take in a text that continues the one before. Returns false for any other text, and changes nothing. */
  update(text: string): boolean {
    if (text.length < this.text.length || !text.startsWith(this.text)) return false;
    // A CR at the end may be half of a CR LF, and a surrogate half of a pair.
    const taken = /[\r\ud800-\udbff]$/.test(text.slice(-1)) ? text.slice(0, -1) : text;
    if (taken.length <= this.text.length) return true;
    this.tail += safeText(taken.slice(this.text.length));
    this.text = taken;
    this.read();
    return true;
  }

  private read(): void {
    while (this.tail) {
      const { finished, length, open } = this.elements < MAX_ELEMENTS ? readTail(this.tail) : readRest(this.tail);
      this.finished.push(...finished);
      this.elements += elementsIn(finished);
      this.open = open;
      if (length === 0) return;
      this.tail = this.tail.slice(length);
    }
    this.open = null;
  }
}

/** All pieces of a text. */
export function piecesOf(text: string): Piece[] {
  const pieces = new MarkdownPieces();
  pieces.update(text);
  return pieces.open ? [...pieces.finished, pieces.open] : pieces.finished;
}

/** About how many elements blocks become: each object and list in them is one. */
function elementsIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let count = 1;
  for (const member of Object.values(value)) count += elementsIn(member);
  return count;
}

/** The rest of a text that has too many elements, as code. */
function readRest(tail: string): Reading {
  const piece = (raw: string): Piece => ({ raw, blocks: [{ kind: "code", language: "markdown", text: raw }] });
  if (tail.length <= MAX_CODE) return { finished: [], length: 0, open: piece(tail) };
  const length = tail.lastIndexOf("\n", MAX_CODE - 1) + 1 || MAX_CODE;
  return { finished: [piece(tail.slice(0, length))], length, open: null };
}

interface Reading {
  finished: Piece[];
  /** How much of the tail is finished. */
  length: number;
  open: Piece | null;
}

function readTail(tail: string): Reading {
  const lineEnd = tail.indexOf("\n");
  const fence = fenceOf(lineEnd < 0 ? tail : tail.slice(0, lineEnd));
  if (fence) return readCode(tail, fence);
  const window = tail.length > MAX_PIECE ? tail.slice(0, MAX_PIECE) : tail;
  const before = untilFence(window);
  const reading = readBlocks(before);
  if (reading.length > 0) return reading;
  if (before.length < window.length) return { finished: [reading.open!], length: before.length, open: null };
  return tail.length > MAX_PIECE ? readLong(window) : reading;
}

/** A block that has no end within the longest one: cut after its last line, or its last word. */
function readLong(window: string): Reading {
  const at = Math.max(window.lastIndexOf("\n"), 0) || Math.max(window.lastIndexOf(" "), 0) || window.length - 1;
  const raw = window.slice(0, at + 1);
  return { finished: [pieceOf(raw)], length: raw.length, open: null };
}

function pieceOf(raw: string): Piece {
  return { raw, blocks: placedBlocks(raw.split("\n")).map(({ block }) => block) };
}

/** The text before the first whole line that opens fenced code at the top level. */
function untilFence(text: string): string {
  let hasList = false;
  for (let start = 0; ; ) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text;
    const line = text.slice(start, end);
    const fence = fenceOf(line);
    // One that is indented after an item of a list belongs to the item.
    if (fence && (fence.indent === 0 || !hasList)) return text.slice(0, start);
    hasList ||= isItem(line);
    start = end + 1;
  }
}

/** Fenced code from its opening line to its closing line, or as far as it has come. */
function readCode(tail: string, fence: Fence): Reading {
  const { language, indent } = fence;
  const begin = tail.indexOf("\n") + 1;
  const code = (length: number, end: number): Piece => {
    const text = begin ? tail.slice(begin, end).replace(/\n$/, "") : "";
    const plain = indent ? text.replace(new RegExp(`^ {1,${indent}}`, "gm"), "") : text;
    return { raw: tail.slice(0, length), blocks: [{ kind: "code", language, text: plain }] };
  };
  for (let start = begin; begin > 0 && start < tail.length; ) {
    const end = tail.indexOf("\n", start);
    if (closesFence(tail.slice(start, end < 0 ? undefined : end), fence)) {
      const length = end < 0 ? tail.length : end + 1;
      const piece = code(length, start);
      // The last line may still grow into one that closes nothing.
      return end < 0 ? { finished: [], length: 0, open: piece } : { finished: [piece], length, open: null };
    }
    if (end < 0) break;
    start = end + 1;
    if (start > MAX_CODE) return { finished: [code(start, start)], length: start, open: null };
  }
  return { finished: [], length: 0, open: code(tail.length, tail.length) };
}

/** The blocks of a text without fences. Those before a later one that has a whole line, after an empty one, are finished. */
function readBlocks(text: string): Reading {
  const lines = text.split("\n");
  const placed = placedBlocks(lines);
  const isCut = (start: number) => lines[start - 1]!.trim() === "" && start < lines.length - 1;
  const cut = placed.findLastIndex(({ start }, index) => index > 0 && isCut(start));
  if (cut < 0) return { finished: [], length: 0, open: { raw: text, blocks: placed.map(({ block }) => block) } };
  const finished = placed.slice(0, cut).map(({ block, start, end }) => ({ raw: lines.slice(start, end).join("\n"), blocks: [block] }));
  const length = lines.slice(0, placed[cut]!.start).reduce((sum, line) => sum + line.length + 1, 0);
  return { finished, length, open: null };
}
