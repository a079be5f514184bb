// One task as a page follows it: its row, its log as far as it is loaded, live events, and the task at any number.
//
// The snapshot that the server gives is the task after its last event at that moment; live events go on from there,
// so the page shows the present before it has the log. `version` changes at most once per frame, whatever arrives.

import { signal } from "../signals.ts";
import type { Task } from "../a2a/types.ts";
import { api, path } from "../api/http.ts";
import { openChannel, type Channel } from "../api/stream.ts";
import type { LogEventDetails, TaskDetails, TaskLog, TaskRow } from "../api/types.ts";
import { EventLog, LogLoader } from "./log.ts";
import { ScrubHistory } from "./scrub.ts";

const SCRUB_PAUSE_MS = 120;

export class TaskTimeline {
  readonly log = new EventLog();
  readonly row = signal<TaskRow | null>(null);
  readonly details = signal<TaskDetails | null>(null);
  /** Why the task is not read or followed. */
  readonly error = signal<unknown>(null);
  /** Why a task as it was could not be read. */
  readonly scrubError = signal<unknown>(null);
  /** Changes when events have arrived. */
  readonly version = signal(0);
  readonly loader: LogLoader;
  private readonly history = new ScrubHistory(this.log);
  private readonly asking = new Set<number>();
  private channel: Channel | null = null;
  private scrubTimer: ReturnType<typeof setTimeout> | null = null;
  private isScheduled = false;
  private isClosed = false;

  constructor(readonly agent: string, readonly id: string) {
    this.loader = new LogLoader(this.log, (after, limit) => this.readPage(after, limit), () => this.changed());
  }

  /** Read the task, follow it, and load its log; first the events around a number, if one is given. */
  async open(around: number | null = null): Promise<void> {
    this.error.value = null;
    try {
      const details = await api.get<TaskDetails>(path("tasks", this.id), { query: { agent: this.agent } });
      if (this.isClosed) return;
      this.take(details);
      this.channel = openChannel(
        { kind: "task_log", task: this.id, agent: this.agent },
        {
          cursor: details.task.events,
          onData: ({ events, task }) => {
            this.log.addEvents(events);
            this.row.value = task;
            this.changed();
          },
          onError: (error) => (this.error.value = error),
        },
      );
    } catch (error) {
      if (!this.isClosed) this.error.value = error;
      return;
    }
    if (around !== null) this.loader.want(Math.max(1, around - 100), around + 100);
    else void this.loader.run();
  }

  close(): void {
    this.isClosed = true;
    this.channel?.close();
    this.loader.close();
    if (this.scrubTimer !== null) clearTimeout(this.scrubTimer);
  }

  /** The task after event n; null while only the server knows it. */
  taskAt(n: number): Task | null {
    return this.history.at(n);
  }

  /** One event in full, with its forms. */
  readEvent(seq: number, signal: AbortSignal): Promise<LogEventDetails> {
    return api.get<LogEventDetails>(path("tasks", this.id, "log", seq), { query: { agent: this.agent }, signal });
  }

  private readPage(after: number, limit: number): Promise<TaskLog> {
    return api.get<TaskLog>(path("tasks", this.id, "log"), { query: { agent: this.agent, after, limit } });
  }

  private take(details: TaskDetails): void {
    this.details.value = details;
    this.row.value = details.task;
    this.log.last = Math.max(this.log.last, details.task.events);
    if (details.task.events > 0) this.history.learn(details.task.events, details.snapshot);
    this.changed();
  }

  /** Ask the server for the task after event n. Of many numbers, only the one where the cursor rests is read. */
  ask(n: number): void {
    if (this.isClosed || this.asking.has(n)) return;
    this.scrubError.value = null;
    if (this.scrubTimer !== null) clearTimeout(this.scrubTimer);
    this.scrubTimer = setTimeout(() => void this.readTaskAt(n), SCRUB_PAUSE_MS);
  }

  private async readTaskAt(n: number): Promise<void> {
    this.asking.add(n);
    try {
      const details = await api.get<TaskDetails>(path("tasks", this.id), { query: { agent: this.agent, at: n } });
      this.history.learn(n, details.snapshot);
      this.scrubError.value = null;
    } catch (error) {
      this.scrubError.value = error;
    }
    this.asking.delete(n);
    if (!this.isClosed) this.changed();
  }

  private changed(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.version.value++;
    });
  }
}
