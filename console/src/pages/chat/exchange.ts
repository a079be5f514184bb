// One message of the user and everything that came of it: a task with its notes, artifacts, questions and answers, or a
// direct reply. It folds the events of a stream, in which nothing may be lost or doubled:
// - an event whose number was received before is dropped;
// - a snapshot of the task adds what is missing and replaces what differs; one that is older than the events is ignored;
// - messages are known by their ids, so that a history can be read again at any time.
// It knows neither connections nor the page. `version` changes when something in it has changed and `flush` was called.

import { signal } from "../../signals.ts";
import {
  hasData, isInterrupted, isTerminal, type Artifact, type ArtifactUpdate, type JsonObject, type Message, type Part, type StatusUpdate,
  type StreamResponse, type Task, type TaskStatus,
} from "../../a2a/types.ts";
import { isPlainText } from "../../content/parts.tsx";
import { stepOf, type Step } from "./narration.ts";

/** Notes and steps that are kept of one run of them; of more, the last. */
export const MAX_NOTES = 100;
/** Runs of notes and of steps that are kept; of more, the last. */
export const MAX_PROGRESS = 500;
/** Characters of text, and other parts, that are kept of one artifact. */
export const MAX_TEXT = 60_000_000;
export const MAX_PARTS = 5_000;
/** Artifacts of one task. */
export const MAX_ARTIFACTS = 1_000;

export interface Note {
  parts: readonly Part[];
  at: string;
}

/** What the transcript shows, in its order. */
export type Entry =
  | { kind: "user"; message: Message }
  /** Progress of the agent. `dropped` counts older notes that are gone. */
  | { kind: "notes"; notes: Note[]; dropped: number }
  | { kind: "steps"; steps: Step[]; dropped: number }
  | { kind: "artifact"; artifact: ArtifactRecord }
  | { kind: "said"; message: Message }
  /** About the connection. */
  | { kind: "connection"; text: string };

/** What is happening with the message. */
export type Phase = "sending" | "running" | "cut" | "waiting" | "ended" | "unsent";

/** An artifact as far as it has come. */
export class ArtifactRecord {
  readonly id: string;
  name = "";
  description = "";
  metadata: JsonObject = {};
  /** Changes when the artifact is replaced, so that its view begins anew. */
  revision = 0;
  isOpen = true;
  /** Characters and parts that were not kept. */
  dropped = 0;
  private kept: Part[] = [];
  private length = 0;
  private shown: readonly Part[] | null = null;

  constructor(artifact: Artifact) {
    this.id = artifact.artifactId;
    this.replace(artifact);
    this.revision = 0;
  }

  /** Its parts; the same list as long as nothing was added. */
  get parts(): readonly Part[] {
    return (this.shown ??= [...this.kept]);
  }

  get text(): string {
    return this.kept.map((part) => part.text ?? "").join("");
  }

  replace(artifact: Artifact): void {
    this.kept = [];
    this.length = 0;
    this.dropped = 0;
    this.revision++;
    this.add(artifact);
  }

  /** Add the parts of a chunk; texts that follow each other are one. */
  add(artifact: Artifact): void {
    this.name = artifact.name || this.name;
    this.description = artifact.description || this.description;
    if (artifact.metadata) this.metadata = { ...this.metadata, ...artifact.metadata };
    for (const part of artifact.parts ?? []) this.addPart(part);
    this.shown = null;
  }

  private addPart(part: Part): void {
    const length = part.text?.length ?? 0;
    const last = this.kept.at(-1);
    const continues = isPlainText(part) && last !== undefined && isPlainText(last);
    if (this.length + length > MAX_TEXT || (!continues && this.kept.length >= MAX_PARTS)) {
      this.dropped += length || 1;
      return;
    }
    this.length += length;
    if (continues) this.kept[this.kept.length - 1] = { text: last.text! + part.text! };
    else if (!isPlainText(part) || length > 0) this.kept.push(part);
  }

  /** What another state of the artifact has beyond this one; null if it does not continue it. */
  missingIn(artifact: Artifact): Part[] | null {
    const other = new ArtifactRecord(artifact).kept;
    const last = this.kept.length - 1;
    for (let index = 0; index < last; index++) if (!isSamePart(this.kept[index]!, other[index])) return null;
    if (last < 0) return other;
    const mine = this.kept[last]!;
    const theirs = other[last];
    if (isSamePart(mine, theirs)) return other.slice(last + 1);
    if (!theirs || !isPlainText(mine) || !isPlainText(theirs) || !theirs.text!.startsWith(mine.text!)) return null;
    return [{ text: theirs.text!.slice(mine.text!.length) }, ...other.slice(last + 1)];
  }
}

function isSamePart(one: Part, other: Part | undefined): boolean {
  if (!other) return false;
  if (isPlainText(one) && isPlainText(other)) return one.text === other.text;
  if (one.raw !== undefined) return one.raw === other.raw && one.filename === other.filename;
  return JSON.stringify(one) === JSON.stringify(other);
}

/** One message of the user and what came of it. */
export class Exchange {
  readonly version = signal(0);
  /** The first message. */
  readonly message: Message | null;
  taskId = "";
  contextId = "";
  status: TaskStatus | null = null;
  metadata: JsonObject = {};
  phase: Phase = "sending";
  /** Why the message could not be sent, or the reply not be followed. */
  error = "";
  readonly entries: Entry[] = [];
  /** The number of the last event. */
  cursor: number | null = null;
  createdAt = "";
  /** Entries with notes and steps that there were, and that were dropped. */
  private progress = 0;
  dropped = 0;
  private readonly artifacts = new Map<string, Extract<Entry, { kind: "artifact" }>>();
  private readonly steps = new Set<string>();
  private readonly known = new Set<string>();
  private isChanged = false;

  constructor(message: Message | null) {
    this.message = message;
    if (message) this.addUser(message);
  }

  /** The exchange of a task that was read from the agent. */
  static of(task: Task): Exchange {
    const first = task.history?.find((message) => message.role === "ROLE_USER") ?? null;
    const exchange = new Exchange(first);
    exchange.takeTask(task);
    return exchange;
  }

  get state() {
    return this.status?.state ?? "TASK_STATE_SUBMITTED";
  }

  /** The agent does not work on it now. */
  get isOver(): boolean {
    return this.phase === "ended" || this.phase === "waiting" || this.phase === "unsent";
  }

  get hasFailed(): boolean {
    return this.state === "TASK_STATE_FAILED" || this.state === "TASK_STATE_REJECTED" || this.state === "TASK_STATE_CANCELED";
  }

  get artifactRecords(): ArtifactRecord[] {
    return this.entries.flatMap((entry) => (entry.kind === "artifact" ? [entry.artifact] : []));
  }

  /** Take an event in. Returns false for one that came before. */
  take(event: StreamResponse, number: number | null): boolean {
    if (number !== null) {
      // A task that had already ended comes as two events with one number, of which the first says it all.
      if (this.cursor !== null && number <= this.cursor) return false;
      this.cursor = number;
    }
    if (event.artifactUpdate) this.takeArtifact(event.artifactUpdate);
    else if (event.statusUpdate) this.takeStatus(event.statusUpdate);
    else if (event.task) this.takeTask(event.task);
    else if (event.message) this.takeReply(event.message);
    this.changed();
    return true;
  }

  /** Tell the view, once, if anything has changed since the last time. */
  flush(): void {
    if (!this.isChanged) return;
    this.isChanged = false;
    this.version.value++;
  }

  setPhase(phase: Phase, error = ""): void {
    this.phase = phase;
    this.error = error;
    this.changed();
  }

  /** A message of the user in this task: the first, or an answer. */
  addUser(message: Message): void {
    if (this.isKnown(message)) return;
    this.known.add(message.messageId);
    this.keepStatusMessage();
    this.entries.push({ kind: "user", message });
    this.changed();
  }

  /** Say something about the connection; a text that follows another one replaces it. */
  addConnection(text: string): void {
    const last = this.entries.at(-1);
    if (last?.kind === "connection") this.entries.pop();
    this.entries.push({ kind: "connection", text });
    this.changed();
  }

  private changed(): void {
    this.isChanged = true;
  }

  // --- events --------------------------------------------------------------------------------------------------------

  private takeReply(message: Message): void {
    this.contextId = message.contextId || this.contextId;
    this.say(message);
    this.phase = "ended";
  }

  private takeStatus({ taskId, contextId, status, metadata }: StatusUpdate): void {
    this.taskId = taskId || this.taskId;
    this.contextId = contextId || this.contextId;
    if (metadata) this.metadata = { ...this.metadata, ...metadata };
    this.setStatus(status);
  }

  private setStatus(status: TaskStatus): void {
    this.keepStatusMessage();
    this.status = status;
    const { state, message } = status;
    if (isTerminal(state)) {
      this.phase = "ended";
      for (const artifact of this.artifactRecords) artifact.isOpen = false;
    } else {
      this.phase = isInterrupted(state) ? "waiting" : "running";
    }
    // Questions and reasons are shown with the state; the message of a completed task may repeat its artifact.
    if (!message || this.isKnown(message)) return;
    if (state === "TASK_STATE_COMPLETED" && !this.repeatsArtifact(message)) this.say(message);
    else if (!isTerminal(state) && !isInterrupted(state)) this.note(message, status.timestamp ?? "");
  }

  /** A question that was answered stays in the transcript. */
  private keepStatusMessage(): void {
    const before = this.status;
    if (before?.message && isInterrupted(before.state)) this.say(before.message);
  }

  /** Whether a message is in the transcript. Agents of 0.1 give their messages no ids. */
  private isKnown(message: Message): boolean {
    return Boolean(message.messageId) && this.known.has(message.messageId);
  }

  private say(message: Message): void {
    if (this.isKnown(message)) return;
    this.known.add(message.messageId);
    this.entries.push({ kind: "said", message });
  }

  private note(message: Message, at: string): void {
    this.known.add(message.messageId);
    if (!message.parts?.some((part) => part.text?.trim() || part.raw || part.url || hasData(part))) return;
    const last = this.entries.at(-1);
    const entry: Extract<Entry, { kind: "notes" }> = last?.kind === "notes" ? last : { kind: "notes", notes: [], dropped: 0 };
    if (entry !== last) this.addProgress(entry);
    entry.notes.push({ parts: message.parts, at });
    if (entry.notes.length > MAX_NOTES) {
      entry.notes.shift();
      entry.dropped++;
    }
  }

  private repeatsArtifact(message: Message): boolean {
    const parts = message.parts ?? [];
    const whole = parts.map((part) => part.text ?? "").join("").trim();
    if (!whole || parts.some((part) => part.text === undefined)) return false;
    return this.artifactRecords.some((artifact) => artifact.text.trim() === whole);
  }

  private takeArtifact({ taskId, contextId, artifact, append, lastChunk }: ArtifactUpdate): void {
    this.taskId = taskId || this.taskId;
    this.contextId = contextId || this.contextId;
    if (this.phase === "sending" || this.phase === "cut") this.phase = "running";
    const step = stepOf(artifact);
    if (step) return this.takeStep(step);
    const entry = this.artifacts.get(artifact.artifactId);
    if (entry?.kind !== "artifact") return this.addArtifact(artifact, lastChunk === true);
    if (append) entry.artifact.add(artifact);
    else entry.artifact.replace(artifact);
    entry.artifact.isOpen = lastChunk !== true;
    this.moveBehindAnswer(entry);
  }

  private addArtifact(artifact: Artifact, isWhole: boolean): void {
    if (this.artifacts.size >= MAX_ARTIFACTS) return;
    const entry = { kind: "artifact" as const, artifact: new ArtifactRecord(artifact) };
    entry.artifact.isOpen = !isWhole;
    this.artifacts.set(artifact.artifactId, entry);
    this.entries.push(entry);
  }

  /** An artifact that goes on after the user has answered is shown after the answer. */
  private moveBehindAnswer(entry: Entry): void {
    const at = this.entries.lastIndexOf(entry);
    if (!this.entries.slice(at + 1).some((later) => later.kind === "user")) return;
    this.entries.splice(at, 1);
    this.entries.push(entry);
  }

  private takeStep(step: Step): void {
    if (this.steps.has(step.id)) return;
    this.steps.add(step.id);
    const last = this.entries.at(-1);
    const entry: Extract<Entry, { kind: "steps" }> = last?.kind === "steps" ? last : { kind: "steps", steps: [], dropped: 0 };
    if (entry !== last) this.addProgress(entry);
    entry.steps.push(step);
    if (entry.steps.length > MAX_NOTES) {
      entry.steps.shift();
      entry.dropped++;
    }
  }

  /** Notes and steps may alternate without end: the oldest entries of them go. */
  private addProgress(entry: Entry): void {
    this.entries.push(entry);
    this.progress++;
    if (this.progress - this.dropped <= MAX_PROGRESS) return;
    this.dropped++;
    this.entries.splice(this.entries.findIndex(({ kind }) => kind === "notes" || kind === "steps"), 1);
  }

  // --- snapshots -----------------------------------------------------------------------------------------------------

  /** Take a whole task in: at the start of a stream, after a break, or from a list. */
  takeTask(task: Task): void {
    this.taskId = task.id;
    this.contextId = task.contextId || this.contextId;
    if (this.isAheadOf(task)) return;
    this.metadata = { ...this.metadata, ...task.metadata };
    this.takeHistory(task);
    for (const artifact of task.artifacts ?? []) this.takeWholeArtifact(artifact, isTerminal(task.status.state));
    if (!this.status || !isSameStatus(this.status, task.status)) this.setStatus(task.status);
    // A stream that follows an answer may begin with the task as it was before, which still asks.
    else if (!isInterrupted(task.status.state) && !this.isOver) this.setStatus(task.status);
    this.changed();
  }

  private takeWholeArtifact(artifact: Artifact, isWhole: boolean): void {
    const step = stepOf(artifact);
    if (step) return this.takeStep(step);
    const entry = this.artifacts.get(artifact.artifactId);
    if (entry?.kind !== "artifact") return this.addArtifact(artifact, isWhole);
    const missing = entry.artifact.missingIn(artifact);
    if (missing === null) entry.artifact.replace(artifact);
    else entry.artifact.add({ ...artifact, parts: missing });
    entry.artifact.isOpen = !isWhole;
    if (missing === null || missing.length > 0) this.moveBehindAnswer(entry);
  }

  /** Whether a snapshot is older than the events: every artifact in it has less than was seen, and it has not ended. */
  private isAheadOf(task: Task): boolean {
    if (isTerminal(task.status.state) || isInterrupted(task.status.state) || this.artifacts.size === 0) return false;
    const theirs = (task.artifacts ?? []).filter((artifact) => !stepOf(artifact));
    let hasLess = theirs.length < this.artifactRecords.length;
    for (const artifact of theirs) {
      const entry = this.artifacts.get(artifact.artifactId);
      if (entry?.kind !== "artifact") return false;
      const beyond = new ArtifactRecord(artifact).missingIn({ artifactId: artifact.artifactId, parts: [...entry.artifact.parts] });
      if (beyond === null) return false;
      hasLess ||= beyond.length > 0;
    }
    return hasLess;
  }

  private takeHistory(task: Task): void {
    const history = task.history ?? [];
    for (const [index, message] of history.entries()) {
      if (this.isKnown(message)) continue;
      if (message.role === "ROLE_USER") this.addUser(message);
      // A message that the user answered was a question; any other was a note about the progress, or the end.
      else if (history[index + 1]?.role === "ROLE_USER") this.say(message);
      else if (isAnswer(task, index)) this.say(message);
      else this.note(message, "");
    }
  }
}

/** Whether a message of the history is the answer itself: the last one of a task without artifacts and a last message. */
function isAnswer(task: Task, index: number): boolean {
  const isLast = index === (task.history?.length ?? 0) - 1;
  return isLast && !task.artifacts?.length && !task.status.message && task.status.state === "TASK_STATE_COMPLETED";
}

function isSameStatus(one: TaskStatus, other: TaskStatus): boolean {
  if (one.state !== other.state || one.message?.messageId !== other.message?.messageId) return false;
  // Some agents ask twice without a message: only the timestamp tells the second question from the first.
  return !isInterrupted(one.state) || !one.timestamp || !other.timestamp || one.timestamp === other.timestamp;
}
