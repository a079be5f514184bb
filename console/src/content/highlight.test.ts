// Colours of code: the text stays as it is, and no code takes long.

import { describe, expect, test } from "vitest";
import { highlight, type Piece } from "./highlight.ts";
import { cpuTime } from "../testing/cpu_time.ts";

const textOf = (pieces: Piece[]) => pieces.map((piece) => (typeof piece === "string" ? piece : piece.text)).join("");
const found = (code: string, language: string) =>
  highlight(code, language)!.flatMap((piece) => (typeof piece === "string" ? [] : [`${piece.kind}: ${piece.text}`]));

test("languages have their comments, strings, numbers and keywords", () => {
  expect(found('def f(x): return "a#b" # c', "python")).toEqual(["keyword: def", "name: f", "keyword: return", 'string: "a#b"', "comment: # c"]);
  expect(found("const x = `a ${1}`; // 2", "ts")).toEqual(["keyword: const", "string: `a ${1}`", "comment: // 2"]);
  expect(found('{"a": [1.5, true]}', "JSON")).toEqual(['name: "a"', "number: 1.5", "keyword: true"]);
  expect(found("select 'it''s' -- x", "sql")).toEqual(["keyword: select", "string: 'it''s'", "comment: -- x"]);
  expect(found('<a href="b">', "html")).toEqual(["keyword: <a", "name: href", 'string: "b"', "keyword: >"]);
  expect(found("+new\n-old\n same", "diff")).toEqual(["added: +new", "removed: -old"]);
  expect(found("key: 'v' # c", "yaml")).toEqual(["name: key", "string: 'v'", "comment: # c"]);
});

test("an unknown language has no colours", () => {
  expect([highlight("x", "brainfuck"), highlight("x", ""), highlight("x", "__proto__")]).toEqual([null, null, null]);
});

describe("code that is made to take long", () => {
  const ATTACKS = ['"'.repeat(50_000), "'\\".repeat(25_000), "/*".repeat(25_000), "`".repeat(49_999), "<!--".repeat(12_000), "a".repeat(50_000), "a(".repeat(25_000), "- a".repeat(16_000), `"${" ".repeat(49_000)}`, "1_".repeat(25_000), "[".repeat(50_000), "'''\"\"\"".repeat(8_000), " ".repeat(50_000)];
  for (const language of ["js", "python", "json", "bash", "sql", "xml", "yaml", "css", "diff"]) {
    test(`takes a moment in ${language}, and is still the same text`, () => {
      const start = cpuTime();
      for (const attack of ATTACKS) expect(textOf(highlight(attack, language)!)).toBe(attack);
      expect(cpuTime() - start).toBeLessThan(3_000);
    });
  }
});
