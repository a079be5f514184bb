// The fields of a form that an agent asks for with a JSON Schema, and the values of what people enter into them.
// It reads schemas as src/parley/forms/fields.py does: a schema may come from any agent, so nothing in it is trusted to
// be well-formed. Objects inside are fields in a group; what has no field of its own is entered as JSON.

import type { JsonObject, JsonValue, Part } from "../a2a/types.ts";
import { isContainer } from "./data_rows.ts";

export const SCHEMA_TYPE = "application/schema+json";

const INDIRECTIONS = new Set(["$ref", "anyOf", "oneOf", "allOf"]);
/** References may be circular. */
const MAX_INDIRECTIONS = 8;
/** Objects inside objects that are shown as groups. */
const MAX_DEPTH = 3;
/** Fields of one form. */
export const MAX_FIELDS = 2_000;
/** Choices of all fields of one form: references let a small schema ask for millions. A field beyond is entered as text. */
export const MAX_CHOICES = 20_000;

export type FieldKind =
  | "text" | "long-text" | "number" | "integer" | "boolean" | "choice" | "choices" | "lines" | "json" | "group";

export interface Field {
  name: string;
  /** Where the value goes in the answer. */
  path: string[];
  title: string;
  /** Said below the title; empty if the title says it all. */
  description: string;
  kind: FieldKind;
  isRequired: boolean;
  /** What kind of text it is, such as `date`. */
  format: string;
  choices: JsonValue[];
  default: JsonValue | undefined;
  /** The fields of a group. */
  fields: Field[];
  schema: JsonObject;
}

/** The form in the parts of a question: its schema, if it has fields. */
export function formIn(parts: readonly Part[]): JsonObject | null {
  for (const { data, mediaType } of parts) {
    if (!isObject(data) || (mediaType !== SCHEMA_TYPE && data["type"] !== "object")) continue;
    if (fieldsOf(data).length > 0) return data;
  }
  return null;
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return isContainer(value) && !Array.isArray(value);
}

/** The fields of an object that the schema describes, in their order. */
export function fieldsOf(schema: JsonObject): Field[] {
  const budget = { left: MAX_FIELDS, choices: MAX_CHOICES };
  return fieldsIn(resolved(schema, schema), schema, [], budget);
}

interface Budget {
  left: number;
  choices: number;
}

function fieldsIn(about: JsonObject, root: JsonObject, path: string[], budget: Budget): Field[] {
  const properties = about["properties"];
  if (!isObject(properties)) return [];
  const required = Array.isArray(about["required"]) ? about["required"] : [];
  const fields: Field[] = [];
  for (const [name, each] of Object.entries(properties)) {
    if (budget.left-- <= 0) break;
    fields.push(fieldOf([...path, name], resolved(each, root), root, required.includes(name), budget));
  }
  return fields;
}

/** A property after resolving references, and alternatives to the first that is not null. Pydantic writes so. */
export function resolved(from: JsonValue | undefined, root: JsonObject): JsonObject {
  let about = isObject(from) ? from : {};
  for (let step = 0; step < MAX_INDIRECTIONS; step++) {
    const kinds = [about["anyOf"], about["oneOf"], about["allOf"]].find(Array.isArray) ?? [];
    const alternatives = (kinds as JsonValue[]).filter(isObject);
    if (alternatives.length > 0 && alternatives.every((each) => "const" in each)) {
      return { ...about, enum: alternatives.map((each) => each["const"]!) };
    }
    const reference = about["$ref"];
    const target =
      typeof reference === "string" ? referenced(reference, root) : alternatives.find((each) => each["type"] !== "null");
    if (!target) break;
    const own = Object.entries(about).filter(([name]) => !INDIRECTIONS.has(name));
    // The title of a referenced type is the name of a class and not of the field.
    const theirs = Object.entries(target).filter(([name]) => name !== "title");
    about = Object.fromEntries([...theirs, ...own]);
  }
  return about;
}

function referenced(reference: string, root: JsonObject): JsonObject | undefined {
  let found: JsonValue | undefined = root;
  for (const name of reference.replace(/^#\//, "").split("/")) {
    found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return isObject(found) ? found : undefined;
}

function fieldOf(path: string[], about: JsonObject, root: JsonObject, isRequired: boolean, budget: Budget): Field {
  const name = path.at(-1)!;
  const own = "const" in about ? [about["const"]!] : Array.isArray(about["enum"]) ? about["enum"] : [];
  const title = textOf(about["title"]) || textOf(about["description"]) || name;
  const description = textOf(about["description"]);
  const inside = typeOf(about) === "object" && path.length < MAX_DEPTH ? fieldsIn(about, root, path, budget) : [];
  const items = resolved(about["items"], root);
  const all = own.length > 0 ? own : Array.isArray(items["enum"]) ? items["enum"] : [];
  const isTooMany = all.length > budget.choices;
  if (!isTooMany) budget.choices -= all.length;
  const choices = isTooMany ? [] : own;
  return {
    name, path, title, isRequired,
    description: description === title ? "" : description,
    format: textOf(about["format"]),
    kind: isTooMany && about["type"] === undefined ? "json" : kindOf(about, isTooMany ? {} : items, choices, inside),
    choices: isTooMany ? [] : all,
    default: about["default"],
    fields: inside,
    schema: about,
  };
}

function kindOf(about: JsonObject, items: JsonObject, choices: JsonValue[], inside: Field[]): FieldKind {
  if (choices.length > 0) return "choice";
  if (inside.length > 0) return "group";
  switch (typeOf(about)) {
    case "string":
      return about["format"] === undefined && Number(about["maxLength"] ?? 0) > 200 ? "long-text" : "text";
    case "boolean":
    case "integer":
    case "number":
      return typeOf(about) as FieldKind;
    case "array":
      if (Array.isArray(items["enum"])) return "choices";
      return typeOf(items) === "string" && isObject(about["items"]) ? "lines" : "json";
    default:
      return "json";
  }
}

/** The type of JSON Schema; of several, the first that is not null. */
export function typeOf(about: JsonObject): string {
  const kind = about["type"];
  if (Array.isArray(kind)) return textOf(kind.find((each) => each !== "null")) || "string";
  return textOf(kind) || (isObject(about["properties"]) ? "object" : "string");
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === "string" ? value : "";
}

// --- what people enter -----------------------------------------------------------------------------------------------

/** What is in a field: text, or the numbers of the choices that are taken. */
export type Entry = string | number[];

/** What a field holds at first: its default. */
export function entryAtFirst(field: Field): Entry {
  const value = field.default;
  if (field.kind === "choices") return numbersOf(Array.isArray(value) ? value : [], field.choices);
  if (field.kind === "choice") return value === undefined ? onlyChoice(field) : String(numbersOf([value], field.choices)[0] ?? "");
  if (value === undefined || value === null) return "";
  if (field.kind === "lines" && Array.isArray(value)) return value.map(String).join("\n");
  if (field.kind === "boolean") return String(value);
  return typeof value === "string" && field.kind !== "json" ? value : JSON.stringify(value);
}

/** The only choice of a constant that is required. */
function onlyChoice(field: Field): Entry {
  return field.isRequired && field.choices.length === 1 && "const" in field.schema ? "0" : "";
}

function numbersOf(values: JsonValue[], choices: JsonValue[]): number[] {
  const texts = choices.map((choice) => JSON.stringify(choice));
  return values.map((value) => texts.indexOf(JSON.stringify(value))).filter((index) => index >= 0);
}

/** An entry that no value can be read from; the message says what is expected. */
export class EntryError extends Error {}

/** The value of an entry; undefined if an optional field is empty. Raises EntryError. */
export function valueOf(field: Field, entry: Entry): JsonValue | undefined {
  if (Array.isArray(entry)) {
    return entry.length > 0 || field.isRequired ? entry.map((index) => field.choices[index]!) : undefined;
  }
  const text = field.kind === "long-text" || field.kind === "lines" ? entry : entry.trim();
  if (!text.trim()) {
    if (field.isRequired && field.kind === "lines") return [];
    if (field.isRequired) throw new EntryError("This field is required.");
    return undefined;
  }
  switch (field.kind) {
    case "choice":
      return field.choices[Number(text)]!;
    case "boolean":
      return text === "true";
    case "integer":
    case "number":
      return numberOf(text, field.kind);
    case "lines":
      return text.split("\n").map((line) => line.trim()).filter(Boolean);
    case "json":
      return parsed(text);
    default:
      return text;
  }
}

function numberOf(text: string, kind: "integer" | "number"): number {
  const value = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  if (!Number.isFinite(value)) throw new EntryError(kind === "integer" ? "Enter a whole number." : "Enter a number.");
  if (kind === "integer" && !Number.isInteger(value)) throw new EntryError("Enter a whole number.");
  return value;
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (error) {
    throw new EntryError(`This is not valid JSON: ${error instanceof Error ? error.message : ""}`);
  }
}

/** All fields that hold a value, those in groups included. */
export function leavesOf(fields: readonly Field[]): Field[] {
  return fields.flatMap((field) => (field.kind === "group" ? leavesOf(field.fields) : [field]));
}

/** The name of a field among all of the form: its path as JSON, since names may hold any character. */
export function keyOf(field: Field): string {
  return JSON.stringify(field.path);
}
