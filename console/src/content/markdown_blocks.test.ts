// Cutting Markdown into blocks: the same blocks however the text comes, and never too much work.

import { describe, expect, test } from "vitest";
import { MarkdownPieces, MAX_ELEMENTS, MAX_PIECE, piecesOf, type Piece } from "./markdown_blocks.ts";
import { cpuTime } from "../testing/cpu_time.ts";

const DOCUMENTS = [
  "# Title\n\nA paragraph with **bold** and `code`.\nAnother line.\n\n- one\n- two\n\n  more of two\n- three\n\nThe end.",
  "Before\n```python\nprint('a')\n\n\nprint('b')\n```\nAfter\n\n~~~\nopen code\n\nwith a blank line",
  "1. First:\n   ```bash\n   ls\n\n   pwd\n   ```\n2. Second\n\n> quoted\n> more\n\ntext",
  "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nA line | with a bar\n\n* * *\n\nSetext\n======\n\nmore",
  "a\n\n\n\n    indented code\n\n    more\n\n- x\n\n\n- y\n    - nested\n\n      para\n\nend",
  "<div>\nraw\n</div>\n\ntext <b>bold</b>\n\n[1]: https://example.com\n\nsee [x][1] and [y](https://a.example)\n\n***\n",
  "line one\r\nline two\r\n\r\nnext\r\n",
  "```\n```\n\n````md\n```\ninner\n```\n````\n\nafter `",
];

/** A generator of numbers below one that is the same every time. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

function inPieces(text: string, random: () => number): Piece[] {
  const pieces = new MarkdownPieces();
  for (let end = 0; end < text.length; ) {
    end = Math.min(text.length, end + 1 + Math.floor(random() * 12));
    expect(pieces.update(text.slice(0, end))).toBe(true);
  }
  return pieces.open ? [...pieces.finished, pieces.open] : pieces.finished;
}

const shown = (pieces: Piece[]) => pieces.flatMap((piece) => piece.blocks);

describe("blocks of a text that grows", () => {
  for (const [index, document] of DOCUMENTS.entries()) {
    test(`document ${index} has the same blocks in pieces as at once`, () => {
      const whole = shown(piecesOf(document));
      for (let seed = 1; seed <= 60; seed++) expect(shown(inPieces(document, numbers(seed)))).toEqual(whole);
    });
  }

  test("documents joined in any order have the same blocks in pieces as at once", () => {
    const random = numbers(7);
    for (let round = 0; round < 40; round++) {
      const text = Array.from({ length: 5 }, () => DOCUMENTS[Math.floor(random() * DOCUMENTS.length)]).join("\n\n");
      expect(shown(inPieces(text, random))).toEqual(shown(piecesOf(text)));
    }
  });

  test("finished blocks stay the same objects", () => {
    const blocks = new MarkdownPieces();
    blocks.update("One.\n\nTwo.\n\nThr");
    const first = blocks.finished[0];
    blocks.update("One.\n\nTwo.\n\nThree.\n\nFour.\n");
    expect(blocks.finished[0]).toBe(first);
    expect(blocks.finished).toHaveLength(3);
  });

  test("a text that does not continue the one before is refused", () => {
    const blocks = new MarkdownPieces();
    blocks.update("One");
    expect(blocks.update("Two")).toBe(false);
    expect(blocks.update("On")).toBe(false);
  });

  test("a fence in an item of a list belongs to the item", () => {
    const [list, ...more] = shown(piecesOf("1. First:\n   ```bash\n   ls\n   ```\n2. Second\n"));
    expect(more).toEqual([]);
    expect(list).toMatchObject({ kind: "list", start: 1, items: [{ inside: [{}, { kind: "code", language: "bash", text: "ls" }] }, {}] });
  });

  test("a paragraph without an end is cut, at the same place however it comes", () => {
    const text = "word ".repeat((3 * MAX_PIECE) / 5);
    const whole = piecesOf(text);
    expect(whole.length).toBe(3);
    expect(Math.max(...whole.map((block) => block.raw.length))).toBeLessThanOrEqual(MAX_PIECE);
    const blocks = new MarkdownPieces();
    for (let end = 0; end < text.length; end += 997) blocks.update(text.slice(0, end));
    blocks.update(text);
    expect([...blocks.finished, ...(blocks.open ? [blocks.open] : [])].map((piece) => piece.raw.length)).toEqual(whole.map((piece) => piece.raw.length));
  });

  for (const line of ["`a` ", "- a\n", "a\n\n", "> "]) {
    test(`a million characters of ${JSON.stringify(line)} become some elements and a text`, () => {
      const text = line.repeat(1_000_000 / line.length);
      const pieces = piecesOf(text);
      expect(JSON.stringify(pieces.map((piece) => piece.blocks)).match(/[{[]/g)!.length).toBeLessThan(MAX_ELEMENTS + MAX_PIECE);
      const rest = pieces.filter(({ blocks: [block] }) => block?.kind === "code");
      expect(rest.length > 0 && text.endsWith(rest.map((piece) => piece.raw).join(""))).toBe(line !== "> ");
    });
  }

  test("control characters are made visible, and a CR LF in two pieces is one line end", () => {
    const blocks = new MarkdownPieces();
    for (const text of ["a\u202eb", "a\u202eb\r", "a\u202eb\r\n", "a\u202eb\r\nc"]) blocks.update(text);
    expect(blocks.open?.raw).toBe("a⟨U+202E⟩b\nc");
  });
});

describe("texts that are made to take long", () => {
  const ATTACKS: Record<string, string> = {
    quotes: `${">".repeat(20_000)}x`,
    lists: `${"- ".repeat(20_000)}x`,
    brackets: "[".repeat(20_000),
    stars: "*a ".repeat(7_000),
    "stars and underscores": "*a_ ".repeat(5_000),
    backticks: Array.from({ length: 200 }, (_, index) => "`".repeat(index)).join(" "),
    links: "[a](".repeat(5_000),
    tags: "<a ".repeat(7_000),
    comments: "<!--".repeat(5_000),
    escapes: "\\".repeat(20_000),
    "wide tables": `|${"a|".repeat(5_000)}\n|${"-|".repeat(5_000)}\n${"|a\n".repeat(2_000)}`,
    "long tables": `|${"a|".repeat(90)}\n|${"-|".repeat(90)}\n${"|a\n".repeat(7_000)}`,
    spaces: `a${" ".repeat(20_000)}b`,
    newlines: "a\n".repeat(10_000),
    setext: `${"a\n=\n".repeat(4_000)}`,
    autolinks: "http://a.".repeat(2_400),
    addresses: "a@".repeat(10_000),
    "open code": "```".repeat(7_000),
    "nested emphasis": `${"*a ".repeat(5_000)}${"a* ".repeat(5_000)}`,
    "marks that close nothing": `${"*a ".repeat(4_000)}${"a_ ".repeat(2_000)}${"~~a ".repeat(1_000)}${"a~ ".repeat(2_000)}`,
    "links without an end": "[a](<".repeat(4_000),
    "links with titles": '[a](b "'.repeat(3_000),
    "brackets and parentheses": "](".repeat(10_000),
    "nested lists": Array.from({ length: 150 }, (_, depth) => `${" ".repeat(2 * depth)}- a`).join("\n"),
    "lists and gaps": "- a\n\n  b\n\n".repeat(2_000),
    "lines of quotes": "> ".repeat(9).concat("a\n").repeat(1_000),
    headings: `# ${"#".repeat(20_000)}`,
    rules: "- ".repeat(10_000),
  };
  for (const [name, text] of Object.entries(ATTACKS)) {
    test(`20,000 characters of ${name} are read in a moment`, () => {
      const start = cpuTime();
      expect(piecesOf(text).map((block) => block.raw.length).reduce((a, b) => a + b, 0)).toBeGreaterThan(0);
      expect(cpuTime() - start).toBeLessThan(400);
    });
  }
});
