// What a section of the operate page is: a table over one route, and the actions of its rows, as data.
//
// `host_sections` and `tenant_sections` have them all, and section_page.tsx shows any of them, as `parley admin` makes
// commands of its table. This module holds the types, and how rows become texts and forms become bodies.

import { bytesText } from "../../text/safe.ts";
import { formatTime } from "./formats.ts";

export type Row = Record<string, unknown>;
export type Scope = "read" | "call" | "manage" | "approve" | "audit";
export type ColumnKind = "text" | "code" | "time" | "number" | "bytes" | "yes" | "list" | "state" | "lease";

/** The member of the row (with dots for members of members), its title, how it is shown, and what stands for an empty one. */
export type Column = readonly [member: string, label: string, kind?: ColumnKind, empty?: string];

export type FieldKind = "text" | "long" | "number" | "check" | "choice" | "scopes" | "list" | "json" | "file";

export interface Field {
  name: string;
  label: string;
  kind?: FieldKind;
  /** The member of the body, with dots; by default the name. */
  member?: string;
  help?: string;
  isRequired?: boolean;
  choices?: readonly string[];
  /** The member of the row with which the field begins. */
  from?: string;
  initial?: unknown;
  /** Sent as null when it is empty, in place of being left out. */
  isNullable?: boolean;
}

/**
 * Something that can be done. In its texts, `{member}` stands for a member of the reply or the row, and `{}` for what the
 * row is: "the schedule Daily report".
 */
export interface Action {
  label: string;
  /** The heading of the dialog, if it is not the label with what the row is. */
  title?: string;
  method?: "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the path of the section, or from `/` on. Members in braces are of the row or of the form. */
  path: string;
  fields?: readonly Field[];
  /** Members of the body beside those of the form; texts may have members in braces. */
  body?: Row;
  /** What will happen, if the user must be asked before. */
  warning?: string;
  /** The member that the user has to type, for what cannot be undone. */
  typed?: string;
  isDanger?: boolean;
  when?: (row: Row) => unknown;
  scopes?: readonly Scope[];
  /** The reply has a token that is shown once. */
  hasToken?: boolean;
  /** The row has a `revision` that was seen: If-Match or the body takes it. */
  revision?: "header" | "body";
  /** What has happened. */
  done: string;
}

export interface Section {
  id: string;
  title: string;
  /** What one row is: "schedule". */
  noun: string;
  /** One sentence about what is listed. */
  about: string;
  group: "host" | "tenant";
  /** What the caller must be allowed to see it; operators may see everything. */
  needs: "operator" | Scope;
  path: string;
  /** The member of the reply that holds the rows. */
  rows: string;
  key: string;
  columns: readonly Column[];
  /** How the next page is asked for: the member of the reply, or of the last row with `@`, and the query parameter. */
  paging?: readonly [next: string, parameter: string];
  /** Members of a row that its details show; with a path, they are read first. */
  details?: { path?: string; members: readonly string[] };
  create?: readonly Action[];
  actions?: readonly Action[];
  /** What to say, and what to do next, when there are no rows. */
  empty: readonly [title: string, next?: string];
  /** How often it is read again by itself, in seconds. */
  refresh?: number;
  /** Where the first cell of a row leads, if not to its details. */
  link?: (row: Row) => string;
  /** What the reply says above the table, with members in braces. */
  summary?: string;
}

/** The caller as far as sections depend on it. */
export interface Rights {
  is_operator: boolean;
  scopes: readonly string[];
  tenant: string | null;
}

export function isShown(needs: Section["needs"], rights: Rights): boolean {
  return rights.is_operator || (needs !== "operator" && rights.scopes.includes(needs));
}

/** The actions of a section that the caller may run on a row. */
export function actionsOf(actions: readonly Action[] | undefined, row: Row, rights: Rights): Action[] {
  return (actions ?? []).filter((action) => {
    const isAllowed = rights.is_operator || (action.scopes ?? ["manage"]).every((scope) => rights.scopes.includes(scope));
    return isAllowed && (!action.when || action.when(row));
  });
}

// --- rows and texts --------------------------------------------------------------------------------------------------

/** The member that a path with dots names; undefined if there is none. */
export function valueAt(row: unknown, member: string): unknown {
  return member.split(".").reduce<unknown>((value, name) => {
    return typeof value === "object" && value !== null ? (value as Row)[name] : undefined;
  }, row);
}

/** A value as a cell shows it. */
export function cellText(value: unknown, kind: ColumnKind = "text"): string {
  if (value === undefined || value === null || value === "") return "";
  switch (kind) {
    case "time":
      return typeof value === "number" ? (value ? formatTime(value * 1000) : "never") : formatTime(Date.parse(String(value)));
    case "number":
      return Number(value).toLocaleString("en-US");
    case "bytes":
      return bytesText(Number(value));
    case "yes":
      return value ? "yes" : "no";
    case "lease":
      return Number(value) < 0 ? `expired ${-Number(value)} s ago` : `${Number(value)} s`;
    case "list":
      return Array.isArray(value) ? value.join(", ") : String(value);
    default:
      return typeof value === "object" ? JSON.stringify(value) : String(value);
  }
}

export function nameOf(row: Row): string {
  return String(row.name || row.id || row.request_id || row.agent_id || "");
}

/** A text of an action with its members put in. */
export function fill(text: string, noun: string, row: Row): string {
  const filled = text.replace(/\{([\w.]*)\}/g, (_, member: string) => {
    return member ? cellText(valueAt(row, member), Array.isArray(valueAt(row, member)) ? "list" : "text") : `the ${noun} ${nameOf(row)}`;
  });
  return filled.charAt(0).toUpperCase() + filled.slice(1);
}

export function titleOf(action: Action, noun: string, row: Row): string {
  const title = action.title ?? (nameOf(row) ? `${action.label} {}` : action.label);
  return fill(action.warning && !title.endsWith("?") ? `${title}?` : title, noun, row);
}

/** The path of an action, for a row and the values of its form. */
export function pathFor(section: Pick<Section, "path">, path: string, row: Row, values: Row = {}): string {
  const whole = path.startsWith("/v1/") || path.startsWith("/console/") ? path : section.path + path;
  return whole.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(row[name] ?? values[name] ?? "")));
}

// --- forms -----------------------------------------------------------------------------------------------------------

/** The values with which the form of an action begins. */
export function initialValues(fields: readonly Field[], row: Row): Row {
  return Object.fromEntries(fields.map((field) => [field.name, initialValue(field, row)]));
}

function initialValue(field: Field, row: Row): unknown {
  const value = (field.from && valueAt(row, field.from)) ?? field.initial;
  switch (field.kind) {
    case "check":
      return Boolean(value);
    case "scopes":
      return Array.isArray(value) ? value : [];
    case "choice":
      return value ?? field.choices?.[0] ?? "";
    default:
      return fieldText(field, value);
  }
}

/** The value of a member as the text of its field. */
export function fieldText(field: Field, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (field.kind === "list") return Array.isArray(value) ? value.join("\n") : String(value);
  return field.kind === "json" ? JSON.stringify(value, null, 2) : String(value);
}

/** What is wrong with the values, by the name of the field. The host checks the rest. */
export function problemsOf(fields: readonly Field[], values: Row): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const value = values[field.name];
    const isEmpty = value === "" || value === undefined || value === null || (Array.isArray(value) && !value.length);
    if (isEmpty && field.isRequired) problems[field.name] = "is required";
    else if (!isEmpty && field.kind === "number" && !Number.isFinite(Number(value))) problems[field.name] = "must be a number";
    else if (!isEmpty && field.kind === "json" && !isJson(String(value))) problems[field.name] = "must be JSON";
  }
  return problems;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The body that a form sends. Empty values are left out, so that what they stand for stays as it is. */
export function bodyOf(action: Action, row: Row, values: Row): Row {
  const body: Row = {};
  for (const [name, value] of Object.entries(action.body ?? {})) {
    const member = typeof value === "string" ? /^\{(\w+)\}$/.exec(value)?.[1] : undefined;
    body[name] = member ? row[member] : value;
  }
  for (const field of action.fields ?? []) {
    if (field.kind === "file" || action.path.includes(`{${field.name}}`)) continue;
    const value = sentValue(field, values[field.name]);
    if (value !== undefined) setMember(body, field.member ?? field.name, value);
  }
  if (action.revision === "body" && row.revision !== undefined) body.revision = row.revision;
  return body;
}

function sentValue(field: Field, value: unknown): unknown {
  if (field.kind === "check") return Boolean(value);
  if (value === undefined || value === null || value === "") return field.isNullable ? null : undefined;
  switch (field.kind) {
    case "number":
      return Number(value);
    case "list":
      return String(value).split("\n").map((line) => line.trim()).filter(Boolean);
    case "scopes":
      return Array.isArray(value) && value.length ? value : undefined;
    case "json":
      return JSON.parse(String(value));
    default:
      return value;
  }
}

function setMember(body: Row, member: string, value: unknown): void {
  const names = member.split(".");
  const last = names.pop()!;
  let target = body;
  for (const name of names) target = (target[name] ??= {}) as Row;
  target[last] = value;
}

/** The field that a path of the host such as `$.quotas.storage_bytes` means. */
export function fieldAt(fields: readonly Field[], path: string): Field | undefined {
  const member = path.replace(/^\$\.?/, "");
  return fields.find((field) => {
    const own = field.member ?? field.name;
    return member === own || member.startsWith(`${own}.`) || member.startsWith(`${own}[`);
  });
}
