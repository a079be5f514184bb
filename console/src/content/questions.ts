// The question of an agent that waits for input, as src/parley/client/questions.py reads it.
// The specification puts it into the message of the status, as text. Some frameworks put it into data instead, or into
// an artifact; each is named where it is read. Data without a question in it is shown as JSON.

import type { Artifact, JsonValue, Message, Part, TaskStatus } from "../a2a/types.ts";
import { isObject } from "./schema_fields.ts";

/** The artifact in which langgraph-api 0.16 asks: `{"id": …, "value": what interrupt() was given}`. */
const INTERRUPT = "Interrupt";

/** Members whose text is the question: of google-adk, LangChain's human-in-the-loop and Strands. */
const QUESTIONS = ["question", "prompt", "message", "hint", "description", "reason", "text", "authUri"];

/** Members that may contain a question: google-adk's function calls, langgraph-api's interrupts, Strands. */
const AROUND_QUESTIONS = [
  "args", "toolConfirmation", "authConfig", "exchangedAuthCredential", "oauth2", "value", "action_requests", "interrupts",
];

/** Data inside data that is searched for a question. */
const MAX_DEPTH = 8;

/** The question of an agent in this status: as text, or as JSON if there is none. */
export function questionOf(status: TaskStatus, artifacts: readonly Artifact[]): string {
  const last = artifacts.at(-1);
  // langgraph-api's status then holds an old message, or a dump of the graph's state.
  if (last?.name === INTERRUPT) return questionIn(last.parts);
  return questionIn(status.message?.parts ?? []) || questionIn(last?.parts ?? []);
}

/** The member of metadata in which Parley's servers describe the permission that a task needs. */
export const AUTHORIZATION = "urn:parley:authorization-request:1";

/**
 * The scheme of the credential that a task asks its caller for; empty if a person gives the permission elsewhere.
 * A URL may be a login, after which there is nothing to send, unless the agent has named a scheme: then the description
 * has `text`, or another scheme than the default.
 */
export function schemeAskedFor({ message }: TaskStatus): string {
  const asked = message?.metadata?.[AUTHORIZATION];
  if (!isObject(asked) || asked["answer"] === "callback") return "";
  const { scheme = "Bearer", text, url } = asked;
  return !url || text || scheme !== "Bearer" ? String(scheme) : "";
}

/** The parts of a message that are for people: without the data that repeats that description for programs. */
export function partsForPeople(message: Message | undefined): readonly Part[] {
  const parts = message?.parts ?? [];
  if (!message?.metadata || !(AUTHORIZATION in message.metadata)) return parts;
  return parts.filter((part) => !(isObject(part.data) && "schemes" in part.data));
}

/** The text of the parts; without text, the question in their data. */
export function questionIn(parts: readonly Part[]): string {
  const text = parts.map((part) => part.text ?? "").join("");
  if (text.trim()) return text;
  // google-adk adds the results of its tool so far to the call that waits for an answer.
  const asking = parts.filter((part) => "data" in part && part.metadata?.["adk_type"] !== "function_response");
  return asking.map((part) => textIn(part.data ?? null, 0) || asJson(part.data ?? null)).join("\n");
}

function textIn(data: JsonValue, depth: number): string {
  if (typeof data === "string") return data;
  if (depth > MAX_DEPTH) return "";
  if (Array.isArray(data)) return data.map((each) => textIn(each, depth + 1)).filter(Boolean).join("\n");
  if (!isObject(data)) return "";
  const own = QUESTIONS.map((name) => data[name]).find((value) => typeof value === "string" && value);
  if (typeof own === "string") return own;
  for (const name of AROUND_QUESTIONS) {
    const found = textIn(data[name] ?? null, depth + 1);
    if (found) return found;
  }
  return "";
}

/** Data as text: a call as `book {"to":"Rome"}`, an interrupt as its value, anything else as it is. */
function asJson(data: JsonValue): string {
  if (isObject(data) && typeof data["name"] === "string" && isObject(data["args"])) {
    return `${data["name"]} ${JSON.stringify(data["args"])}`;
  }
  return JSON.stringify(isObject(data) && "id" in data && "value" in data ? data["value"] : data);
}

const ADDRESS = /https?:\/\/[^\s<>"'）)\]]+/g;

/** The web addresses in a request for authorization: in its text, and google-adk's `authUri`. */
export function addressesIn(status: TaskStatus): string[] {
  const found = new Set<string>();
  for (const part of status.message?.parts ?? []) {
    const text = part.text ?? ("data" in part ? JSON.stringify(part.data).slice(0, 20_000) : part.url ?? "");
    for (const [address] of text.matchAll(ADDRESS)) found.add(withoutEnd(address));
  }
  return [...found].slice(0, 5);
}

/** An address without the punctuation of the sentence around it. */
function withoutEnd(address: string): string {
  let end = address.length;
  while (end > 0 && ".,;:!?\\".includes(address[end - 1]!)) end--;
  return address.slice(0, end);
}
