// Whether an answer keeps the rules of a JSON Schema, in the words of src/parley/forms/schema_check.py.
// The schema comes from any agent: a rule that is not understood is not checked, since the agent checks the answer itself.
// Patterns run only if they cannot take long: an agent could otherwise stop the page with one.

import type { JsonObject, JsonValue } from "../a2a/types.ts";
import { isObject, resolved } from "./schema_fields.ts";

export interface Problem {
  path: (string | number)[];
  reason: string;
}

/** Steps of one check: references of a small schema can ask for more than a machine can do. */
const MAX_STEPS = 20_000;
const MAX_DEPTH = 50;

const KIND_WORDS: Record<string, string> = {
  string: "text", boolean: "yes or no", integer: "a whole number", number: "a number", array: "a list", object: "an object",
  null: "null",
};

export const FORMAT_WORDS: Record<string, string> = {
  date: "a date as YYYY-MM-DD",
  "date-time": "a date and time as YYYY-MM-DDTHH:MM:SSZ",
  time: "a time as HH:MM:SS",
  duration: "a duration such as PT1H30M",
  email: "an e-mail address",
  uri: "a URL",
  uuid: "a UUID",
};

const FORMATS: Record<string, (text: string) => boolean> = {
  date: (text) => /^\d{4}-\d\d-\d\d$/.test(text) && isDate(text),
  "date-time": (text) => /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?$/.test(text) && isDate(text.slice(0, 10)),
  time: (text) => /^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?$/.test(text),
  email: (text) => /^[^\s@]{1,200}@[^\s@]{1,200}$/.test(text),
  uuid: (text) => /^[\da-f]{8}-([\da-f]{4}-){3}[\da-f]{12}$/i.test(text),
  uri: (text) => URL.canParse(text),
};

function isDate(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** What is wrong with an answer, each problem once, in the order of the schema. */
export function problemsOf(value: JsonValue, schema: JsonObject): Problem[] {
  const check = new Check(schema);
  check.value(value, schema, [], 0);
  return check.problems;
}

class Check {
  readonly problems: Problem[] = [];
  private steps = 0;
  private readonly known = new Set<string>();

  constructor(private readonly root: JsonObject) {}

  value(value: JsonValue, schema: JsonValue | undefined, path: (string | number)[], depth: number): void {
    if (!isObject(schema) || depth > MAX_DEPTH || ++this.steps > MAX_STEPS) return;
    const alternatives = [schema["anyOf"], schema["oneOf"]].find(Array.isArray);
    if (alternatives) return this.alternatives(value, schema, alternatives as JsonValue[], path, depth);
    const rules = resolved(schema, this.root);
    const before = this.problems.length;
    this.type(value, rules, path);
    if (this.problems.length > before) return;
    this.members(value, rules, path, depth);
    this.simple(value, rules, path);
  }

  private alternatives(
    value: JsonValue, schema: JsonObject, alternatives: JsonValue[], path: (string | number)[], depth: number,
  ): void {
    let nearest: Problem[] | null = null;
    for (const each of alternatives) {
      if (isObject(each) && each["type"] === "null" && value !== null) continue;
      const check = new Check(this.root);
      check.steps = this.steps;
      check.value(value, each, path, depth + 1);
      this.steps = check.steps;
      if (check.problems.length === 0) return this.simple(value, schema, path);
      // Of several alternatives, the one that came furthest says what is wrong.
      if (!nearest || depthOf(check.problems) > depthOf(nearest)) nearest = check.problems;
    }
    for (const { path: at, reason } of nearest ?? []) this.add(at, reason);
  }

  private type(value: JsonValue, rules: JsonObject, path: (string | number)[]): void {
    const kinds = (Array.isArray(rules["type"]) ? rules["type"] : [rules["type"]]).filter((kind) => typeof kind === "string");
    if (kinds.length === 0 || kinds.some((kind) => isOfKind(value, kind))) return;
    this.add(path, `must be ${kinds.map((kind) => KIND_WORDS[kind] ?? kind).join(" or ")}`);
  }

  private members(value: JsonValue, rules: JsonObject, path: (string | number)[], depth: number): void {
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) this.value(item, rules["items"], [...path, index], depth + 1);
    } else if (isObject(value)) {
      const properties = isObject(rules["properties"]) ? rules["properties"] : {};
      for (const name of Array.isArray(rules["required"]) ? rules["required"] : []) {
        if (typeof name === "string" && !Object.hasOwn(value, name)) this.add([...path, name], "is missing");
      }
      for (const [name, member] of Object.entries(value)) {
        if (Object.hasOwn(properties, name)) this.value(member, properties[name], [...path, name], depth + 1);
        else if (rules["additionalProperties"] === false) this.add([...path, name], "is unknown");
      }
    }
  }

  private simple(value: JsonValue, rules: JsonObject, path: (string | number)[]): void {
    const add = (reason: string) => this.add(path, reason);
    if (Array.isArray(rules["enum"]) && !rules["enum"].some((each) => isEqual(each, value))) add(oneOf(rules["enum"]));
    if ("const" in rules && !isEqual(rules["const"]!, value)) add(`must be ${short(rules["const"]!)}`);
    if (typeof value === "number") for (const reason of numberProblems(value, rules)) add(reason);
    if (typeof value === "string") for (const reason of textProblems(value, rules)) add(reason);
    if (Array.isArray(value)) for (const reason of listProblems(value, rules)) add(reason);
  }

  private add(path: (string | number)[], reason: string): void {
    const key = JSON.stringify([path, reason]);
    if (this.known.has(key)) return;
    this.known.add(key);
    this.problems.push({ path, reason });
  }
}

function depthOf(problems: Problem[]): number {
  return problems.reduce((most, problem) => Math.max(most, problem.path.length), 0);
}

function isOfKind(value: JsonValue, kind: string): boolean {
  switch (kind) {
    case "integer":
      return Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "null":
      return value === null;
    default: // a kind that does not exist is not checked
      return typeof value === kind || !Object.hasOwn(KIND_WORDS, kind);
  }
}

function* numberProblems(value: number, rules: JsonObject): Generator<string> {
  const rule = (name: string) => (typeof rules[name] === "number" ? rules[name] : undefined);
  const [least, most, above, below, step] =
    [rule("minimum"), rule("maximum"), rule("exclusiveMinimum"), rule("exclusiveMaximum"), rule("multipleOf")];
  if (least !== undefined && value < least) yield `must be at least ${least}`;
  if (most !== undefined && value > most) yield `must be at most ${most}`;
  if (above !== undefined && value <= above) yield `must be more than ${above}`;
  if (below !== undefined && value >= below) yield `must be less than ${below}`;
  if (step !== undefined && step > 0 && Math.abs(value / step - Math.round(value / step)) > 1e-9) yield `must be a multiple of ${step}`;
}

function* textProblems(value: string, rules: JsonObject): Generator<string> {
  const length = [...value].length;
  const { minLength, maxLength, format, pattern } = rules as Record<string, JsonValue>;
  if (typeof minLength === "number" && length < minLength) yield `must have at least ${minLength} characters`;
  if (typeof maxLength === "number" && length > maxLength) yield `must have at most ${maxLength} characters`;
  if (typeof format === "string" && FORMATS[format]?.(value) === false) yield `must be ${FORMAT_WORDS[format] ?? format}`;
  if (typeof pattern === "string" && isQuick(pattern, value) && !matches(pattern, value)) yield `must match the pattern ${pattern.slice(0, 100)}`;
}

function* listProblems(value: JsonValue[], rules: JsonObject): Generator<string> {
  const { minItems, maxItems, uniqueItems } = rules as Record<string, JsonValue>;
  if (typeof minItems === "number" && value.length < minItems) yield `must have at least ${minItems} items`;
  if (typeof maxItems === "number" && value.length > maxItems) yield `must have at most ${maxItems} items`;
  if (uniqueItems === true && new Set(value.map((each) => JSON.stringify(each))).size < value.length) {
    yield "must not have the same item twice";
  }
}

/** Whether a pattern takes a time that is bounded well: few repetitions, none inside another, no references back. */
export function isQuick(pattern: string, value: string): boolean {
  if (pattern.length > 300 || value.length > 200) return false;
  const bare = pattern.replace(/\\[^1-9k]/g, "a").replace(/\[[^\]]*\]/g, "a").replace(/\(\?(?::|<\w+>)/g, "(");
  if (/\\|\(\?<?[=!]/.test(bare)) return false;
  const unbounded = /[*+]|\{\d*,\d*\}/g;
  const repetitions = bare.match(unbounded)?.length ?? 0;
  if (repetitions > 3) return false;
  // Every choice may be tried with every other one: `a?a?a?…` and `(a|a)(a|a)…` take as long as repetitions inside others.
  const optional = bare.match(/(?<![*+?}])\?/g)?.length ?? 0;
  const choices = 2 ** optional * bare.split(/[()]/).reduce((product, each) => product * each.split("|").length, 1);
  if (choices > 1_000 || choices * value.length ** repetitions > 10_000_000) return false;
  // A group that repeats must hold neither a repetition nor a choice, which is the shape of patterns that take for ever.
  return !/\([^()]*(?:[*+?|]|\{\d*,)[^()]*\)(?:[*+]|\{)/.test(bare) && !/\)[^()]*\)(?:[*+]|\{)/.test(bare);
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function isEqual(one: JsonValue, other: JsonValue): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function oneOf(choices: JsonValue[]): string {
  const shown = choices.slice(0, 30).map(short).join(", ");
  return `must be one of: ${shown}${choices.length > 30 ? ", …" : ""}`;
}

function short(value: JsonValue): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
