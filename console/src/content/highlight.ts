// Colours for code in a dozen languages: comments, strings, numbers, keywords and names, found by one expression each.
// Not a grammar of any language: 2 kB instead of the 20 of a library, and every expression takes a time that grows with
// the length of the code only, whatever an agent sends.

export type PieceKind = "comment" | "string" | "number" | "keyword" | "name" | "added" | "removed";

/** A piece of code: text as it is, or with a colour. */
export type Piece = string | { kind: PieceKind; text: string };

type Rules = readonly (readonly [PieceKind, string])[];

const words = (text: string) => `\\b(?:${text.replaceAll(" ", "|")})\\b`;
const NUMBER = ["number", String.raw`\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][-+]?\d+)?)\w?\b`] as const;
const CALL = ["name", String.raw`\b[A-Za-z_]\w*(?=\()`] as const;
const DOUBLE = String.raw`"(?:\\.|[^"\\\n])*"?`;
const SINGLE = String.raw`'(?:\\.|[^'\\\n])*'?`;
const BACKTICK = "`(?:\\\\[^]|[^`\\\\])*`?";
const HASH = ["comment", "(?:^|(?<=\\s))#[^\\n]*"] as const;
const SLASHES = ["comment", String.raw`//[^\n]*|/\*[^]*?(?:\*/|$)`] as const;

const C_LIKE: Rules = [
  SLASHES, ["string", `${DOUBLE}|${SINGLE}|${BACKTICK}`], NUMBER,
  ["keyword", words(
    "abstract as async await bool boolean break byte case catch char class const continue default defer def delete do double else enum export " +
    "extends extern false final finally float fn for from func function go if impl implements import in instanceof int interface let long " +
    "loop map match mod module mut namespace new nil null of override package private protected pub public range readonly ref return self " +
    "short static string struct super switch this throw throws trait true try type typeof undefined unsafe use using var virtual void " +
    "when where while yield",
  )],
  CALL,
];

const PYTHON: Rules = [
  ["comment", "#[^\\n]*"], ["string", `[fFrRbBuU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${DOUBLE}|${SINGLE})`], NUMBER,
  ["keyword", words(
    "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda " +
    "match None nonlocal not or pass raise return self True try while with yield",
  )],
  ["name", "@[\\w.]+"], CALL,
];

const JSON_RULES: Rules = [["name", `"(?:\\\\.|[^"\\\\\\n])*"(?=\\s{0,50}:)`], ["string", DOUBLE], NUMBER, ["keyword", words("true false null")]];

const SHELL: Rules = [
  HASH, ["string", `"(?:\\\\[^]|[^"\\\\])*"?|'[^']*'?`], ["number", "\\$\\{?\\w+\\}?"], ["name", "(?:^|(?<=\\s))--?[A-Za-z][\\w-]*"],
  ["keyword", words("case cat cd curl do done echo elif else esac exit export fi for function grep if in local pip return set sudo then while")],
];

const SQL: Rules = [
  ["comment", String.raw`--[^\n]*|/\*[^]*?(?:\*/|$)`], ["string", `'(?:''|[^'])*'?|${DOUBLE}`], NUMBER,
  ["keyword", words(
    "add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end " +
    "exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer " +
    "primary references returning right select set table then union unique update using values view when where with",
  )],
  CALL,
];

const XML: Rules = [
  ["comment", "<!--[^]*?(?:-->|$)"], ["keyword", "</?[A-Za-z][\\w:-]*|/?>"], ["name", String.raw`\b[A-Za-z_:][\w:.-]{0,80}(?==)`], ["string", `${DOUBLE}|${SINGLE}`],
];

const YAML: Rules = [
  HASH, ["name", String.raw`(?:^|(?<=\n))[ \t]*(?:- )?[\w./-]+(?=[ \t]{0,9}[:=])|(?:^|(?<=\n))\[[^\]\n]*\]`], ["string", `${DOUBLE}|${SINGLE}`], NUMBER,
  ["keyword", words("true false null yes no on off")],
];

const CSS: Rules = [
  ["comment", String.raw`/\*[^]*?(?:\*/|$)`], ["string", `${DOUBLE}|${SINGLE}`], ["keyword", "@[\\w-]+"], ["name", "\\b[\\w-]{1,60}(?=\\s{0,9}:)"],
  ["number", "#[\\da-fA-F]{3,8}\\b|\\b\\d+(?:\\.\\d+)?(?:%|[a-z]+)?"],
];

const DIFF: Rules = [
  ["keyword", "(?:^|(?<=\\n))(?:@@|diff |index |\\+\\+\\+|---)[^\\n]*"], ["added", "(?:^|(?<=\\n))\\+[^\\n]*"], ["removed", "(?:^|(?<=\\n))-[^\\n]*"],
];

const NAMES: readonly (readonly [Rules, string])[] = [
  [C_LIKE, "js javascript jsx mjs ts typescript tsx c cpp c++ h cs csharp go golang java kotlin php rust rs scala swift dart proto"],
  [PYTHON, "python py python3 pycon"], [JSON_RULES, "json json5 jsonl ndjson"], [SHELL, "bash sh shell zsh console dockerfile make"],
  [SQL, "sql postgres postgresql sqlite"], [XML, "xml html svg vue"], [YAML, "yaml yml toml ini conf env properties"], [CSS, "css scss"],
  [DIFF, "diff patch"],
];

const known = new Map<string, { rules: Rules; pattern: RegExp | null }>();
for (const [rules, names] of NAMES) for (const name of names.split(" ")) known.set(name, { rules, pattern: null });

/** The pieces of code in a language; null if the language is not known. */
export function highlight(code: string, language: string): Piece[] | null {
  const found = known.get(language.toLowerCase());
  if (!found) return null;
  const flags = found.rules === SQL ? "gi" : "g";
  const pattern = (found.pattern ??= new RegExp(found.rules.map(([, rule]) => `(${rule})`).join("|"), flags));
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of code.matchAll(pattern)) {
    if (!match[0]) continue;
    if (match.index > end) pieces.push(code.slice(end, match.index));
    const rule = match.findIndex((group, index) => index > 0 && group !== undefined) - 1;
    pieces.push({ kind: found.rules[rule]![0], text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < code.length) pieces.push(code.slice(end));
  return pieces;
}
