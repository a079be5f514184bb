// The blocks of Markdown, read line by line: paragraphs, headings, lists, quotes, tables, code and rules.
// What GitHub's Markdown has, without HTML and links by reference, which would tie blocks together. The time grows with
// the number of lines; nesting is bounded, and what is deeper is text.

import { inlineOf, type Inline } from "./markdown_inline.ts";

export type Align = "left" | "right" | "center";

export type MarkdownBlock =
  | { kind: "paragraph"; inside: Inline[] }
  | { kind: "heading"; depth: number; inside: Inline[] }
  | { kind: "quote"; inside: MarkdownBlock[] }
  | { kind: "list"; start: number | null; isLoose: boolean; items: ListItem[] }
  | { kind: "table"; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: "code"; language: string; text: string }
  | { kind: "rule" };

export interface ListItem {
  /** Whether the item of a to-do list is done; null for other lists. */
  isDone: boolean | null;
  inside: MarkdownBlock[];
}

/** A block and its lines: from `start` to before `end`. */
export interface PlacedBlock {
  block: MarkdownBlock;
  start: number;
  end: number;
}

const MAX_DEPTH = 10;
const MAX_COLUMNS = 100;

const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^( {0,3})([-+*]|\d{1,9}[.)])(?=[ \t]|$)/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const DELIMITERS = /^\|?[ \t]*:?-+:?(?:[ \t]*\|[ \t]*:?-+:?)*[ \t]*\|?$/;

export interface Fence {
  indent: number;
  mark: string;
  language: string;
}

/** The fence that a line opens. */
export function fenceOf(line: string): Fence | null {
  const found = FENCE.exec(line);
  if (!found) return null;
  const [, indent, mark, info] = found as unknown as [string, string, string, string];
  if (mark.startsWith("`") && info.includes("`")) return null;
  return { indent: indent.length, mark, language: info.trim().split(/\s/)[0] ?? "" };
}

/** Whether a line closes a fence. */
export function closesFence(line: string, { mark }: Fence): boolean {
  const text = line.trim();
  return text.length >= mark.length && indentOf(line) < 4 && text === mark[0]!.repeat(text.length);
}

export function isItem(line: string): boolean {
  return ITEM.test(line) && !RULE.test(line);
}

function isBlank(line: string | undefined): boolean {
  return line === undefined || line.trim() === "";
}

function indentOf(line: string): number {
  let width = 0;
  for (const character of line) {
    if (character === " ") width++;
    else if (character === "\t") width += 4 - (width % 4);
    else break;
  }
  return width;
}

/** A line without so many columns of white space at its beginning. */
function dedent(line: string, columns: number): string {
  let width = 0;
  let at = 0;
  while (width < columns && (line[at] === " " || line[at] === "\t")) {
    width += line[at] === "\t" ? 4 - (width % 4) : 1;
    at++;
  }
  return " ".repeat(Math.max(0, width - columns)) + line.slice(at);
}

/** The blocks of lines. */
export function placedBlocks(lines: readonly string[], depth = 0): PlacedBlock[] {
  const blocks: PlacedBlock[] = [];
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const { block, end } = readBlock(lines, at, depth);
    blocks.push({ block, start: at, end });
    at = end;
  }
  return blocks;
}

function blocksIn(lines: readonly string[], depth: number): MarkdownBlock[] {
  return placedBlocks(lines, depth).map(({ block }) => block);
}

type Found = { block: MarkdownBlock; end: number };

function readBlock(lines: readonly string[], at: number, depth: number): Found {
  const line = lines[at]!;
  if (indentOf(line) >= 4) return readIndentedCode(lines, at);
  const fence = fenceOf(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { block: headingOf(heading[1]!.length, line.slice(heading[0].length)), end: at + 1 };
  if (RULE.test(line)) return { block: { kind: "rule" }, end: at + 1 };
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function headingOf(depth: number, text: string): MarkdownBlock {
  return { kind: "heading", depth, inside: inlineOf(text.trim().replace(/(?:^|[ \t])#+$/, "").trim()) };
}

/** Whether a line begins another block in the middle of a paragraph. */
function interrupts(line: string, depth: number): boolean {
  if (indentOf(line) >= 4) return false;
  if (HEADING.test(line) || RULE.test(line) || fenceOf(line) !== null) return true;
  if (depth >= MAX_DEPTH) return false;
  const item = ITEM.exec(line);
  // A number other than 1 is a year, a price or the like; an empty item is a dash.
  return QUOTE.test(line) || (item !== null && /^(?:[-+*]|1[.)])$/.test(item[2]!) && !isBlank(line.slice(item[0].length)));
}

function readParagraph(lines: readonly string[], at: number, depth: number): Found {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end])) {
    const underline = UNDERLINE.exec(lines[end]!);
    if (underline) {
      return { block: headingOf(underline[1]!.startsWith("=") ? 1 : 2, textOf(lines, at, end)), end: end + 1 };
    }
    if (interrupts(lines[end]!, depth) || isTable(lines, end)) break;
    end++;
  }
  return { block: { kind: "paragraph", inside: inlineOf(textOf(lines, at, end)) }, end };
}

function textOf(lines: readonly string[], start: number, end: number): string {
  return lines.slice(start, end).map((line) => line.trimStart()).join("\n").trimEnd();
}

function readFence(lines: readonly string[], at: number, fence: Fence): Found {
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end]!, fence)) end++;
  const text = lines.slice(at + 1, end).map((line) => dedent(line, fence.indent)).join("\n");
  return { block: { kind: "code", language: fence.language, text }, end: Math.min(end + 1, lines.length) };
}

function readIndentedCode(lines: readonly string[], at: number): Found {
  let end = at;
  for (let next = at; next < lines.length; next++) {
    if (isBlank(lines[next])) continue;
    if (indentOf(lines[next]!) < 4) break;
    end = next + 1;
  }
  return { block: { kind: "code", language: "", text: lines.slice(at, end).map((line) => dedent(line, 4)).join("\n") }, end };
}

function readQuote(lines: readonly string[], at: number, depth: number): Found {
  let end = at;
  const inside: string[] = [];
  for (; end < lines.length && !isBlank(lines[end]); end++) {
    const line = lines[end]!;
    const isQuoted = QUOTE.test(line);
    // A paragraph goes on without the mark.
    if (!isQuoted && interrupts(line, depth)) break;
    inside.push(isQuoted ? line.replace(/^ {0,3}> ?/, "") : line);
  }
  return { block: { kind: "quote", inside: blocksIn(inside, depth + 1) }, end };
}

// --- lists -----------------------------------------------------------------------------------------------------------

function readList(lines: readonly string[], at: number, depth: number): Found {
  const first = ITEM.exec(lines[at]!)!;
  const kind = first[2]!.at(-1)!;
  const items: ListItem[] = [];
  let isLoose = false;
  let end = at;
  while (end < lines.length) {
    const marker = ITEM.exec(lines[end]!);
    if (!marker || marker[2]!.at(-1) !== kind || RULE.test(lines[end]!)) break;
    const { inside, next, hasGap } = readItem(lines, end, marker, depth);
    items.push(itemOf(inside, depth));
    isLoose ||= hasGap;
    let following = next;
    while (following < lines.length && isBlank(lines[following])) following++;
    const goesOn = following < lines.length && ITEM.exec(lines[following]!)?.[2]!.at(-1) === kind && !RULE.test(lines[following]!);
    isLoose ||= goesOn && following > next;
    end = goesOn ? following : next;
    if (!goesOn) break;
  }
  const start = /\d/.test(kind) || kind === "." || kind === ")" ? Number.parseInt(first[2]!, 10) : null;
  return { block: { kind: "list", start, isLoose, items }, end };
}

interface ItemLines {
  inside: string[];
  /** The line after the item, without the empty ones at its end. */
  next: number;
  /** An empty line divides blocks of the item. */
  hasGap: boolean;
}

function readItem(lines: readonly string[], at: number, marker: RegExpExecArray, depth: number): ItemLines {
  const rest = lines[at]!.slice(marker[0].length);
  const spaces = indentOf(rest);
  const width = marker[0].length + (isBlank(rest) || spaces > 4 ? 1 : spaces);
  const inside = [dedent(rest, width - marker[0].length)];
  let next = at + 1;
  let hasGap = false;
  let fence = fenceOf(inside[0]!);
  for (let end = at + 1; end < lines.length; end++) {
    const line = lines[end]!;
    if (isBlank(line)) continue;
    const isApart = end > next;
    const isInside = indentOf(line) >= width;
    // After an empty line, or where another block begins, only what is indented belongs to the item.
    if (!isInside && (isApart || fence || ITEM.test(line) || interrupts(line, depth))) break;
    const content = dedent(line, width);
    if (isApart && !fence) hasGap ||= indentOf(content) < 4 && !ITEM.test(content);
    for (; next < end; next++) inside.push("");
    inside.push(content);
    next = end + 1;
    if (fence) fence = closesFence(content, fence) ? null : fence;
    else fence = fenceOf(content);
  }
  return { inside, next, hasGap };
}

function itemOf(lines: string[], depth: number): ListItem {
  const box = /^\[([ xX])\][ \t]/.exec(lines[0] ?? "");
  if (box) lines[0] = lines[0]!.slice(box[0].length);
  return { isDone: box ? box[1] !== " " : null, inside: blocksIn(lines, depth + 1) };
}

// --- tables ----------------------------------------------------------------------------------------------------------

/** Whether a table begins at a line: a head, and below it as many delimiters. */
function isTable(lines: readonly string[], at: number): boolean {
  const below = lines[at + 1];
  if (below === undefined || !lines[at]!.includes("|") || !below.includes("-") || !DELIMITERS.test(below.trim())) return false;
  const columns = cellsOf(below).length;
  return columns <= MAX_COLUMNS && cellsOf(lines[at]!).length === columns;
}

function readTable(lines: readonly string[], at: number): Found {
  const head = cellsOf(lines[at]!);
  const align = cellsOf(lines[at + 1]!).map((cell): Align => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  const rows: Inline[][][] = [];
  let end = at + 2;
  for (; end < lines.length && !isBlank(lines[end]) && lines[end]!.includes("|"); end++) {
    rows.push(cellsOf(lines[end]!).slice(0, head.length).map(inlineOf));
  }
  return { block: { kind: "table", align, head: head.map(inlineOf), rows }, end };
}

/** The cells of a line, divided by bars that are neither escaped nor in code. */
function cellsOf(line: string): string[] {
  const cells = line.trim().replace(/^\|/, "").match(/(?:\\[^]?|[^|\\])*(?:\||$)/g) ?? [];
  const texts = cells.map((cell) => cell.replace(/\|$/, "").replaceAll("\\|", "|").trim());
  return texts.at(-1) === "" ? texts.slice(0, -1) : texts;
}
