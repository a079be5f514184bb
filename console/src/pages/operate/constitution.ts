// The members of a constitution as a form, and which of them an agent's reply has beside them.
// The host validates; what it refuses names the member, which the form marks.

import { fieldText, type Field, type Row } from "./section.ts";

export interface FieldGroup {
  title: string;
  fields: readonly Field[];
}

export const CONSTITUTION: readonly FieldGroup[] = [
  {
    title: "Who it is",
    fields: [
      { name: "name", label: "Name", isRequired: true },
      { name: "role", label: "Role", isRequired: true, help: "In a word or two: researcher, author." },
      { name: "goal", label: "Goal", kind: "long", isRequired: true, help: "What it does. The card and the routing use it." },
      { name: "examples", label: "Examples", kind: "list", help: "Requests that it is made for, one on a line." },
    ],
  },
  {
    title: "How it answers",
    fields: [
      { name: "model", label: "Model", help: "Empty: the default of the host; openai/…, anthropic/…, google/…, ollama/…" },
      { name: "personality", label: "Personality", kind: "long" },
      { name: "rules", label: "Rules", kind: "list", help: "One on a line." },
      { name: "brevity", label: "Brevity", kind: "choice", choices: ["lite", "full", "ultra"] },
      { name: "mode", label: "Mode", kind: "choice", choices: ["", "standard", "conversational", "spoken", "writer", "planner"] },
      { name: "channel", label: "Channel", kind: "choice", choices: ["", "voice"] },
      { name: "max_tokens", label: "Most tokens of an answer", kind: "number" },
      { name: "temperature", label: "Temperature", kind: "number", help: "From 0 to 2." },
    ],
  },
  {
    title: "What it may do",
    fields: [
      { name: "capabilities", label: "Commands", kind: "list", help: "One on a line; empty: all of them." },
      { name: "mcp", label: "MCP servers and tools", kind: "list", help: "time, git/git_log; empty: all of the tenant's." },
      { name: "approvals", label: "Approvals", kind: "json", help: "Steps that wait for a decision." },
      { name: "budget", label: "Budget of a request", kind: "json", help: '{"tokens": 50000, "cost": "0.50"}' },
    ],
  },
  {
    title: "How it works",
    fields: [
      { name: "when_busy", label: "Messages while it is at work", kind: "choice", choices: ["queue", "interrupt", "refuse"] },
      { name: "priority", label: "Priority", kind: "choice", choices: ["low", "normal", "high"] },
      { name: "advisor", label: "Advisor", kind: "json", help: 'A second model: {"model": "…", "mode": "consult"}' },
      { name: "intent", label: "Intent", kind: "json" },
      { name: "memory", label: "Memory", kind: "json" },
      { name: "event_types", label: "Event types", kind: "list" },
    ],
  },
];

export const FIELDS: readonly Field[] = CONSTITUTION.flatMap((group) => group.fields);

const DEFAULTS: Row = { brevity: "full", mode: "", channel: "", when_busy: "queue", priority: "normal" };

/** Members of an agent's reply that are not part of its constitution. `advisor_model` repeats `advisor.model`. */
const OTHERS = new Set([
  "description",
  "kind",
  "created_at",
  "updated_at",
  "version",
  "changed_by",
  "pinned_version",
  "stopped",
  "advisor_model",
]);

/** The constitution in an agent's reply. */
export function constitutionIn(agent: Row): Row {
  return Object.fromEntries(Object.entries(agent).filter(([name]) => !OTHERS.has(name)));
}

/** The texts of all fields. */
export function textsOf(constitution: Row): Row {
  return Object.fromEntries(FIELDS.map((field) => [field.name, fieldText(field, constitution[field.name] ?? DEFAULTS[field.name])]));
}

/** The constitution with a field changed; empty fields that are not required are left out. Raises SyntaxError. */
export function withField(constitution: Row, field: Field, text: string): Row {
  const result = { ...constitution };
  const value = fieldValue(field, text);
  if (value === undefined) delete result[field.name];
  else result[field.name] = value;
  return result;
}

function fieldValue(field: Field, text: string): unknown {
  if (field.kind === "list") {
    const lines = text.split("\n");
    return lines.some((line) => line.trim()) ? lines : undefined;
  }
  if (text.trim() === "") return field.isRequired ? "" : undefined;
  if (field.kind === "number") return Number.isFinite(Number(text)) ? Number(text) : text;
  return field.kind === "json" ? (JSON.parse(text) as unknown) : text;
}

/** The constitution as it is sent: lines of lists without empty ones. */
export function toSend(constitution: Row): Row {
  return Object.fromEntries(
    Object.entries(constitution).map(([name, value]) => {
      const isLines = FIELDS.some((field) => field.name === name && field.kind === "list") && Array.isArray(value);
      return [name, isLines ? (value as unknown[]).filter((line) => typeof line !== "string" || line.trim()) : value];
    }),
  );
}

/** The line of pretty-printed JSON that a path such as `$.advisor.mode` or `$.rules[2]` means, from 1 on; 0 if none does. */
export function lineOf(text: string, path: string): number {
  const names = [...path.matchAll(/\.([\w-]+)|\[(\d+)\]/g)];
  const lines = text.split("\n");
  let line = 0;
  for (const [depth, [, name, index]] of names.entries()) {
    const indent = " ".repeat(2 * (depth + 1));
    if (name !== undefined) line = lines.findIndex((each, at) => at >= line && each.startsWith(`${indent}${JSON.stringify(name)}:`));
    else {
      const items = lines.flatMap((each, at) => (at > line && each.startsWith(indent) && each[indent.length] !== " " && !/^[}\]]/.test(each.trim()) ? [at] : []));
      line = items[Number(index)] ?? -1;
    }
    if (line < 0) return 0;
  }
  return names.length ? line + 1 : 0;
}
