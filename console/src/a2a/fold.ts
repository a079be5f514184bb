// How the events of a stream add up to a task, exactly as the server does it (src/parley/protocol/lifecycle.py):
// - A task event is the whole task as it stands.
// - An artifact update replaces the artifact of that id in place, or adds to it if `append` is set. In an artifact that
//   grew, adjacent plain texts are one part, wherever the chunks were cut; a chunk of empty text adds nothing. After a
//   crash the server voids what an agent had said: it sends an update without `append`, which replaces all of it.
// - The message of a status moves into the history when the next message or status comes.
// Unlike the server, it refuses nothing: a foreign agent may break the rules, and the page shows what came.

import { hasData, type Artifact, type JsonObject, type Message, type Part, type StreamResponse, type Task, type TaskStatus } from "./types.ts";

/** Whether a part is text and nothing else, so that it makes no difference where it is cut. */
export function isPlainText(part: Part): part is { text: string } {
  return (
    typeof part.text === "string" && part.raw === undefined && part.url === undefined && !hasData(part) &&
    !part.mediaType && !part.filename && (!part.metadata || Object.keys(part.metadata).length === 0)
  );
}

/** Add parts to others, in place: plain texts that follow each other become one, and none is empty. */
export function addParts(parts: Part[], added: readonly Part[]): void {
  for (const part of added) {
    const last = parts.at(-1);
    if (!isPlainText(part)) parts.push(part);
    else if (part.text === "") continue;
    // A new object: those who hold the former part must not see it change. Engines append without copying the text.
    else if (last && isPlainText(last)) parts[parts.length - 1] = { text: last.text + part.text };
    else parts.push({ text: part.text });
  }
}

/** The old artifact with what a later chunk adds to its description. */
function describedAgain(old: Artifact, chunk: Artifact): Artifact {
  const next: Artifact = { ...old };
  if (chunk.name) next.name = chunk.name;
  if (chunk.description) next.description = chunk.description;
  if (chunk.metadata && Object.keys(chunk.metadata).length) next.metadata = { ...old.metadata, ...chunk.metadata };
  if (chunk.extensions?.length) next.extensions = [...new Set([...(old.extensions ?? []), ...chunk.extensions])];
  return next;
}

/**
 * A task under construction. Events change it in place, in time proportional to the event; `task()` is an immutable
 * view, which shares what has not changed with the view before. Ask for it once per frame, not once per event.
 */
export class TaskFold {
  /** The number of the last event that counted. */
  last: number | null = null;
  /** The reply of an agent that answers with a message instead of a task. */
  reply: Message | null = null;
  private head: Pick<Task, "id" | "contextId"> | null = null;
  private status: TaskStatus = { state: "TASK_STATE_UNSPECIFIED" };
  private history: Message[] = [];
  private metadata: JsonObject | undefined;
  private artifacts = new Map<string, Artifact>();
  /** The parts of artifacts that grew, and whether they have changed since the last view. */
  private grown = new Map<string, { parts: Part[]; isChanged: boolean }>();
  private view: Task | null = null;

  constructor(task?: Task) {
    if (task) this.begin(task);
  }

  /** Count an event. Returns false if it was known already: its number is not above the last. */
  apply(event: StreamResponse, number: number | null = null): boolean {
    if (number !== null && this.last !== null && (event.task ? number < this.last : number <= this.last)) return false;
    if (number !== null) this.last = number;
    this.view = null;
    if (event.task) this.begin(event.task);
    else if (event.message) this.reply = event.message;
    else if (event.statusUpdate) {
      this.require(event.statusUpdate.taskId, event.statusUpdate.contextId);
      this.keepStatusMessage();
      this.status = event.statusUpdate.status;
      const added = event.statusUpdate.metadata;
      if (added && Object.keys(added).length) this.metadata = { ...this.metadata, ...added };
    } else if (event.artifactUpdate) {
      this.require(event.artifactUpdate.taskId, event.artifactUpdate.contextId);
      this.updateArtifact(event.artifactUpdate.artifact, event.artifactUpdate.append ?? false);
    }
    return true;
  }

  /** Add a message that joined the history, which streams do not carry: the one that the user has just sent. */
  addMessage(message: Message): void {
    this.view = null;
    this.keepStatusMessage();
    this.history = [...this.history, message];
  }

  /** The task so far; null before its first event. */
  task(): Task | null {
    if (!this.head) return null;
    if (this.view) return this.view;
    for (const [id, grown] of this.grown) {
      if (!grown.isChanged) continue;
      grown.isChanged = false;
      this.artifacts.set(id, { ...this.artifacts.get(id)!, parts: grown.parts.slice() });
    }
    this.view = { ...this.head, status: this.status, artifacts: [...this.artifacts.values()], history: this.history };
    if (this.metadata) this.view.metadata = this.metadata;
    return this.view;
  }

  private begin(task: Task): void {
    this.head = task.contextId ? { id: task.id, contextId: task.contextId } : { id: task.id };
    this.status = task.status ?? { state: "TASK_STATE_UNSPECIFIED" };
    this.history = task.history ?? [];
    this.metadata = task.metadata;
    this.artifacts = new Map((task.artifacts ?? []).map((artifact) => [artifact.artifactId, artifact]));
    this.grown.clear();
  }

  /** An agent that streams updates without ever sending the task: langgraph-api does for some graphs. */
  private require(id: string, contextId: string | undefined): void {
    this.head ??= contextId ? { id, contextId } : { id };
  }

  private keepStatusMessage(): void {
    if (!this.status.message) return;
    this.history = [...this.history, this.status.message];
    const { message: _, ...rest } = this.status;
    this.status = rest;
  }

  private updateArtifact(chunk: Artifact, append: boolean): void {
    const id = chunk.artifactId;
    const old = this.artifacts.get(id);
    if (!old || !append) {
      this.artifacts.set(id, chunk);
      this.grown.delete(id);
      return;
    }
    const added: Part[] = [];
    addParts(added, chunk.parts ?? []);
    if (added.length) {
      const grown = this.grown.get(id) ?? { parts: [], isChanged: true };
      if (!this.grown.has(id)) addParts(grown.parts, old.parts ?? []);
      addParts(grown.parts, added);
      grown.isChanged = true;
      this.grown.set(id, grown);
    }
    this.artifacts.set(id, describedAgain(old, chunk));
  }
}

/** The task after events, each with its number if it has one. */
export function foldEvents(task: Task | null, events: Iterable<StreamResponse>): Task | null {
  const folded = new TaskFold(task ?? undefined);
  for (const event of events) folded.apply(event);
  return folded.task();
}

/** All text of parts, joined without a separator, as chunks are. */
export function textOf(parts: readonly Part[] | undefined): string {
  return (parts ?? []).map((part) => part.text ?? "").join("");
}
