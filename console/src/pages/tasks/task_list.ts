// The list of tasks behind the page: pages from the API, changes from the stream, for one filter.

import { signal } from "../../signals.ts";
import { api } from "../../api/http.ts";
import { openChannel, type Channel } from "../../api/stream.ts";
import type { ChannelData, TaskPage } from "../../api/types.ts";
import { apiFilter, type TaskFilter } from "./filters.ts";
import { TaskRows } from "./rows.ts";

const FIRST_PAGE = 100;
const NEXT_PAGE = 200;

export class TaskList {
  readonly rows = new TaskRows();
  /** Changes with every change of the rows. */
  readonly version = signal(0);
  readonly error = signal<unknown>(null);
  readonly isLoading = signal(true);
  private readonly filter;
  private readonly abort = new AbortController();
  private channel: Channel | null = null;
  private isScheduled = false;
  private wasOpen = false;
  /** Changes that came while the list is read again; null if it is not. */
  private held: ChannelData["task_list"][] | null = null;

  constructor(filter: TaskFilter, now: number) {
    this.filter = apiFilter(filter, now);
  }

  /** Read the first page, and follow changes. */
  async open(): Promise<void> {
    await this.load(FIRST_PAGE);
    if (this.abort.signal.aborted || this.error.peek() !== null) return;
    this.channel = openChannel(
      { kind: "task_list", ...this.filter },
      {
        onData: (change, isFirst) => {
          // What left the list while there was no connection is not named.
          if (isFirst && this.wasOpen) void this.readAgain();
          this.wasOpen = true;
          this.held?.push(change);
          this.rows.change(change.tasks, change.removed);
          this.changed();
        },
        onError: (error) => (this.error.value = error),
      },
    );
  }

  /** Read the next page, if there is one and none is being read. */
  async more(): Promise<void> {
    if (!this.isLoading.peek() && this.rows.hasMore) await this.load(NEXT_PAGE);
  }

  async retry(): Promise<void> {
    if (this.channel === null) await this.open();
    else await this.load(NEXT_PAGE);
  }

  close(): void {
    this.abort.abort();
    this.channel?.close();
  }

  private async load(limit: number): Promise<void> {
    this.isLoading.value = true;
    try {
      const cursor = this.rows.next;
      const page = await api.get<TaskPage>("/tasks", { query: { ...this.filter, limit, cursor }, signal: this.abort.signal });
      if (this.abort.signal.aborted) return;
      // A page that was asked for before the list began again does not continue it.
      if (this.rows.next === cursor) this.rows.addPage(page);
      this.error.value = null;
    } catch (error) {
      if (!this.abort.signal.aborted) this.error.value = error;
    }
    this.isLoading.value = false;
    this.version.value++;
  }

  /** Replace the rows by the first page, and apply what came meanwhile. */
  private async readAgain(): Promise<void> {
    const held: NonNullable<typeof this.held> = [];
    this.held = held;
    try {
      const page = await api.get<TaskPage>("/tasks", { query: { ...this.filter, limit: FIRST_PAGE }, signal: this.abort.signal });
      if (this.abort.signal.aborted || this.held !== held) return;
      this.rows.restart(page);
      for (const { tasks, removed } of held) this.rows.change(tasks, removed);
    } catch (error) {
      if (!this.abort.signal.aborted) this.error.value = error;
    }
    if (this.held === held) this.held = null;
    this.changed();
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
