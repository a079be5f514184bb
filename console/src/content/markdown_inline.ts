// The inline part of Markdown: emphasis, code, links, pictures, addresses and line breaks, in one pass over the text.
// The time grows with the length of the text, whatever it is: every search goes forward only, and nesting is bounded.
// HTML means nothing here: it stays text.

import { decodeEntities } from "./links.ts";

export type Inline =
  | string
  | { kind: "strong" | "em" | "del"; inside: Inline[]; depth: number }
  | { kind: "link"; href: string; text: string; inside: Inline[]; depth: number }
  | { kind: "picture"; href: string; text: string }
  | { kind: "code"; text: string }
  | { kind: "break" };

/** A run of `*`, `_` or `~` that may begin emphasis. */
interface Mark {
  kind: "mark";
  mark: string;
  count: number;
}

interface Bracket {
  at: number;
  start: number;
  isPicture: boolean;
}

type Node = Inline | Mark;

const MAX_DEPTH = 16;
/** Marks that may still be closed: each that closes looks at all of them. */
const MAX_MARKS = 100;
/** Characters of the address and title of a link. */
const MAX_TARGET = 2_000;

// What ends a piece of text. The rest is looked at by `step`.
const TEXT = /[^\\`*_~[\]!<\nh]+/y;
const ADDRESS = /https?:\/\/[^\s<>`"\\[\]]+/iy;
const IN_ANGLES = /<([a-z][a-z\d+.-]{1,30}:[^\s<>]{1,2000}|[\w.+-]{1,64}@[\w.-]{1,200})>/iy;
const TARGET = /\(\s{0,9}(?:<([^<>\n]*)>|([^\s()<]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s{1,9}(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s{0,9}\)/y;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/** The inline content of a text. */
export function inlineOf(text: string): Inline[] {
  return new Reader(text).read();
}

class Reader {
  private at = 0;
  private readonly nodes: Node[] = [];
  private readonly marks: { node: Mark; at: number }[] = [];
  private readonly brackets: Bracket[] = [];
  /** Where runs of backticks are, by their length. */
  private ticks: Map<number, number[]> | null = null;

  constructor(private readonly text: string) {}

  read(): Inline[] {
    while (this.at < this.text.length) this.step();
    return plainNodes(this.nodes);
  }

  private step(): void {
    TEXT.lastIndex = this.at;
    const found = TEXT.exec(this.text);
    if (found) {
      this.at += found[0].length;
      return this.add(decodeEntities(found[0]));
    }
    switch (this.text[this.at]) {
      case "\\":
        return this.escape();
      case "`":
        return this.code();
      case "*":
      case "_":
      case "~":
        return this.mark();
      case "!":
        return this.text[this.at + 1] === "[" ? this.open(true) : this.take(1);
      case "[":
        return this.open(false);
      case "]":
        return this.close();
      case "<":
        return this.angles();
      case "\n":
        return this.lineBreak();
      default:
        return this.address();
    }
  }

  private add(node: Node): void {
    const last = this.nodes.length - 1;
    const before = this.nodes[last];
    if (typeof node === "string" && typeof before === "string") this.nodes[last] = before + node;
    else this.nodes.push(node);
  }

  private take(length: number): void {
    this.add(this.text.slice(this.at, this.at + length));
    this.at += length;
  }

  private escape(): void {
    const next = this.text[this.at + 1] ?? "";
    if (!/[!-/:-@[-`{-~]/.test(next)) return this.take(1);
    this.add(next);
    this.at += 2;
  }

  private lineBreak(): void {
    const last = this.nodes.length - 1;
    const before = this.nodes[last];
    if (typeof before === "string") this.nodes[last] = before.replace(/(?<! ) +$|\\$/, "");
    this.add({ kind: "break" });
    this.at++;
    while (this.text[this.at] === " ") this.at++;
  }

  private code(): void {
    let length = 1;
    while (this.text[this.at + length] === "`") length++;
    const end = this.nextTicks(length, this.at + length);
    if (end < 0) return this.take(length);
    const code = this.text.slice(this.at + length, end).replaceAll("\n", " ");
    const isPadded = code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "";
    this.add({ kind: "code", text: isPadded ? code.slice(1, -1) : code });
    this.at = end + length;
  }

  /** The next run of so many backticks; each is looked at once. */
  private nextTicks(length: number, from: number): number {
    if (!this.ticks) {
      this.ticks = new Map();
      for (const run of this.text.matchAll(/`+/g)) {
        const known = this.ticks.get(run[0].length);
        if (known) known.push(run.index);
        else this.ticks.set(run[0].length, [run.index]);
      }
      for (const runs of this.ticks.values()) runs.reverse();
    }
    const runs = this.ticks.get(length) ?? [];
    while (runs.length > 0 && runs.at(-1)! < from) runs.pop();
    return runs.at(-1) ?? -1;
  }

  // --- emphasis ------------------------------------------------------------------------------------------------------

  private mark(): void {
    const mark = this.text[this.at]!;
    let count = 1;
    while (this.text[this.at + count] === mark) count++;
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + count] ?? " ";
    this.at += count;
    const isSpace = [before, after].map((each) => /\s/.test(each));
    const isPoint = [before, after].map((each) => PUNCTUATION.test(each));
    const left = !isSpace[1] && (!isPoint[1] || isSpace[0]! || isPoint[0]!);
    const right = !isSpace[0] && (!isPoint[0] || isSpace[1]! || isPoint[1]!);
    const isWord = mark === "_";
    const node: Mark = { kind: "mark", mark, count };
    if (right && (!isWord || !left || isPoint[1])) this.closeMarks(node);
    if (node.count === 0) return;
    if (left && (!isWord || !right || isPoint[0])) {
      this.marks.push({ node, at: this.nodes.length });
      if (this.marks.length > MAX_MARKS) this.marks.shift();
    }
    this.nodes.push(node);
  }

  /** Close the emphasis that such a run began, as often as it can. */
  private closeMarks(closing: Mark): void {
    while (closing.count > 0) {
      const index = this.marks.findLastIndex(({ node }) => node.mark === closing.mark && (closing.mark !== "~" || node.count === closing.count));
      const opening = this.marks[index];
      if (!opening || (this.brackets.at(-1)?.at ?? -1) > opening.at) return;
      const count = Math.min(opening.node.count, closing.count, 2);
      const inside = plainNodes(this.nodes.splice(opening.at + 1));
      const depth = depthOf(inside) + 1;
      if (inside.length === 0 || depth > MAX_DEPTH) {
        this.nodes.push(...inside);
        return void this.marks.splice(index);
      }
      opening.node.count -= count;
      closing.count -= count;
      this.marks.splice(opening.node.count > 0 ? index + 1 : index);
      if (opening.node.count === 0) this.nodes.pop();
      this.nodes.push({ kind: closing.mark === "~" ? "del" : count === 2 ? "strong" : "em", inside, depth });
    }
  }

  // --- links ---------------------------------------------------------------------------------------------------------

  private open(isPicture: boolean): void {
    const length = isPicture ? 2 : 1;
    this.brackets.push({ at: this.nodes.length, start: this.at + length, isPicture });
    this.nodes.push(this.text.slice(this.at, this.at + length));
    this.at += length;
    this.nodes.push(""); // so that no text joins that of the bracket
  }

  private close(): void {
    const bracket = this.brackets.pop();
    const target = bracket ? this.target() : null;
    if (!bracket || target === null) return this.take(1);
    const text = this.text.slice(bracket.start, this.at);
    const inside = plainNodes(this.nodes.splice(bracket.at + 1));
    this.nodes.pop();
    this.at = TARGET.lastIndex;
    while ((this.marks.at(-1)?.at ?? -1) >= bracket.at) this.marks.pop();
    if (bracket.isPicture) return this.add({ kind: "picture", href: target, text });
    // No links in links.
    const flat = inside.flatMap((node) => (typeof node === "object" && node.kind === "link" ? node.inside : [node])).filter((node) => node !== "");
    const depth = depthOf(flat) + 1;
    if (depth > MAX_DEPTH) return this.add(text);
    this.add({ kind: "link", href: target, text, inside: flat, depth });
  }

  /** The address in parentheses after a bracket. */
  private target(): string | null {
    if (this.text[this.at + 1] !== "(") return null;
    TARGET.lastIndex = this.at + 1;
    const end = this.text.indexOf(")", this.at);
    if (end < 0 || end - this.at > MAX_TARGET) return null;
    const found = TARGET.exec(this.text);
    return found ? decodeEntities(found[1] ?? found[2] ?? "") : null;
  }

  private angles(): void {
    IN_ANGLES.lastIndex = this.at;
    const found = IN_ANGLES.exec(this.text);
    if (!found) return this.take(1);
    const text = found[1]!;
    const href = text.includes(":") ? text : `mailto:${text}`;
    this.add({ kind: "link", href, text, inside: [text], depth: 1 });
    this.at += found[0].length;
  }

  private address(): void {
    ADDRESS.lastIndex = this.at;
    const isWord = /\w/.test(this.text[this.at - 1] ?? "");
    const found = isWord ? null : ADDRESS.exec(this.text);
    if (!found) return this.take(1);
    const text = withoutEnd(found[0].slice(0, MAX_TARGET));
    this.add({ kind: "link", href: text, text, inside: [text], depth: 1 });
    this.at += text.length;
  }
}

/** An address without the punctuation of the sentence around it. */
function withoutEnd(address: string): string {
  let end = address.length;
  let opened = 0;
  for (const character of address) opened += character === "(" ? 1 : character === ")" ? -1 : 0;
  for (; end > 8; end--) {
    const last = address[end - 1]!;
    if (last === ")" && opened < 0) opened++;
    else if (!".,;:!?'*_~]".includes(last)) break;
  }
  return address.slice(0, end);
}

/** Nodes without marks: those that nothing closed are text. */
function plainNodes(nodes: readonly Node[]): Inline[] {
  const plain: Inline[] = [];
  for (const node of nodes) {
    const each = typeof node === "object" && node.kind === "mark" ? node.mark.repeat(node.count) : node;
    const last = plain.length - 1;
    if (typeof each === "string" && typeof plain[last] === "string") plain[last] += each;
    else plain.push(each);
  }
  return plain;
}

function depthOf(nodes: readonly Inline[]): number {
  let depth = 0;
  for (const node of nodes) if (typeof node === "object" && "depth" in node) depth = Math.max(depth, node.depth);
  return depth;
}
