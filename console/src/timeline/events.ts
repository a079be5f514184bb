// The events of a task's log: what the page calls them, and how they change the task.
//
// A body is the event as the store keeps it: canonical names in snake_case, parts tagged by `type`. `applyEvent` turns
// it into an event of A2A 1.0 for the fold of `a2a/fold.ts`. Events that no caller sees change nothing in a task.

import type { TaskFold } from "../a2a/fold.ts";
import type { Artifact, JsonObject, JsonValue, Message, Part, TaskState, TaskStatus } from "../a2a/types.ts";
import type { LogEvent } from "../api/types.ts";

const LABELS: { [kind: string]: string } = {
  "message-added": "message",
  "step-progress": "progress",
};

/** The word for a kind of event; most are words already. */
export function kindLabel(kind: string): string {
  return LABELS[kind] ?? kind;
}

const CHANGES_TASK = new Set(["created", "message-added", "status", "artifact"]);

/** Whether the task may differ before and after an event of this kind. */
export function changesTask(kind: string): boolean {
  return CHANGES_TASK.has(kind);
}

/** Count an event. Returns false if it changes the task but its body is not here, so that the fold cannot go on. */
export function applyEvent(fold: TaskFold, event: LogEvent): boolean {
  if (!changesTask(event.kind)) return true;
  if (event.body === null) return false;
  const body = objectOf(event.body);
  const taskId = textOf(body.task_id) ?? "";
  const context = optional("contextId", textOf(body.context_id));
  const metadata = optional("metadata", nonEmpty(body.metadata));
  if (event.kind === "created") {
    fold.apply({ task: { id: taskId, ...context, status: readStatus(body.status), ...metadata } });
  } else if (event.kind === "message-added") {
    fold.addMessage(readMessage(body.message));
  } else if (event.kind === "status") {
    fold.apply({ statusUpdate: { taskId, ...context, status: readStatus(body.status), ...metadata } });
  } else {
    fold.apply({ artifactUpdate: { taskId, ...context, artifact: readArtifact(body.artifact), append: body.append === true } });
  }
  return true;
}

function readStatus(value: JsonValue | undefined): TaskStatus {
  const status = objectOf(value);
  const word = (textOf(status.state) ?? "unknown").toUpperCase().replaceAll("-", "_");
  const state = `TASK_STATE_${word === "UNKNOWN" ? "UNSPECIFIED" : word}` as TaskState;
  return {
    state,
    ...(status.message ? { message: readMessage(status.message) } : {}),
    ...optional("timestamp", textOf(status.timestamp)),
  };
}

/** A message as the store keeps it. */
export function readMessage(value: JsonValue | undefined): Message {
  const message = objectOf(value);
  return {
    messageId: textOf(message.message_id) ?? "",
    role: message.role === "agent" ? "ROLE_AGENT" : "ROLE_USER",
    parts: listOf(message.parts).map(readPart),
    ...optional("contextId", textOf(message.context_id)),
    ...optional("taskId", textOf(message.task_id)),
    ...optional("metadata", nonEmpty(message.metadata)),
    ...(message.extensions ? { extensions: listOf(message.extensions).map(String) } : {}),
    ...(message.reference_task_ids ? { referenceTaskIds: listOf(message.reference_task_ids).map(String) } : {}),
  };
}

function readArtifact(value: JsonValue | undefined): Artifact {
  const artifact = objectOf(value);
  return {
    artifactId: textOf(artifact.artifact_id) ?? "",
    parts: listOf(artifact.parts).map(readPart),
    ...optional("name", textOf(artifact.name)),
    ...optional("description", textOf(artifact.description)),
    ...optional("metadata", nonEmpty(artifact.metadata)),
    ...(artifact.extensions ? { extensions: listOf(artifact.extensions).map(String) } : {}),
  };
}

function readPart(value: JsonValue): Part {
  const part = objectOf(value);
  const content: Part =
    part.type === "raw" ? { raw: textOf(part.raw) ?? "" }
    : part.type === "url" ? { url: textOf(part.url) ?? "" }
    : part.type === "data" ? { data: part.data ?? null }
    : { text: textOf(part.text) ?? "" };
  return {
    ...content,
    ...optional("mediaType", textOf(part.media_type)),
    ...optional("filename", textOf(part.filename)),
    ...optional("metadata", nonEmpty(part.metadata)),
  };
}

/** The value if it is text. */
export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The value if it is an object, otherwise an empty one. */
export function objectOf(value: JsonValue | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

/** The value if it is a list, otherwise an empty one. */
export function listOf(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}

function nonEmpty(value: JsonValue | undefined): JsonObject | undefined {
  const object = objectOf(value);
  return Object.keys(object).length > 0 ? object : undefined;
}

function optional<Name extends string, T>(name: Name, value: T | undefined): { [name in Name]?: T } {
  return value === undefined ? {} : ({ [name]: value } as { [name in Name]?: T });
}
