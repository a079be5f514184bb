// The log of one task as far as it is loaded: which events are here, which are not kept, and which to ask for next.
//
// Events arrive in pages from anywhere in the log, and live at its end. Numbers rise by one, so an event's row in the
// list is its number less the oldest. A number that a page skips is not kept by the server; it stays an empty row.

import type { LogEvent, TaskLog } from "../api/types.ts";

export const PAGE_EVENTS = 500;

/** Events of a task, by number. */
export class EventLog {
  oldest = 1;
  last = 0;
  loaded = 0;
  /** How many loaded events there are of each kind. */
  readonly kinds = new Map<string, number>();
  /** The bytes of the bodies that are here. */
  bytes = 0;
  private gone = 0;
  /** undefined: not loaded; null: not kept. The index is the number. */
  private readonly events: (LogEvent | null | undefined)[] = [];

  get length(): number {
    return this.last === 0 ? 0 : Math.max(0, this.last - this.oldest + 1);
  }

  /** Whether every event is here that the server keeps. */
  get isComplete(): boolean {
    return this.loaded + this.gone >= this.length;
  }

  /** The event, null if it is not kept, undefined if it is not loaded. */
  get(seq: number): LogEvent | null | undefined {
    return this.events[seq];
  }

  /** Add the reply to a request for the events after a number. */
  addPage(after: number, page: TaskLog): void {
    this.last = Math.max(this.last, page.last);
    this.oldest = page.oldest;
    const end = page.events.at(-1)?.seq ?? page.last;
    this.addEvents(page.events);
    for (let seq = Math.max(after + 1, this.oldest); seq <= end; seq++) {
      if (this.events[seq] !== undefined) continue;
      this.events[seq] = null;
      this.gone++;
    }
  }

  /** Add events that came live. Those that are here already are dropped. */
  addEvents(events: LogEvent[]): void {
    for (const event of events) {
      if (this.events[event.seq]) continue;
      this.events[event.seq] = event;
      this.loaded++;
      this.kinds.set(event.kind, (this.kinds.get(event.kind) ?? 0) + 1);
      if (event.body !== null) this.bytes += event.size;
      if (event.seq > this.last) this.last = event.seq;
    }
  }

  /** The first number in a range that is not loaded. */
  firstMissing(from: number, to: number): number | null {
    const end = Math.min(to, this.last);
    for (let seq = Math.max(from, this.oldest); seq <= end; seq++) {
      if (this.events[seq] === undefined) return seq;
    }
    return null;
  }

  /** The numbers of the loaded events that pass, in order. */
  select(passes: (event: LogEvent) => boolean): number[] {
    const numbers: number[] = [];
    for (let seq = this.oldest; seq <= this.last; seq++) {
      const event = this.events[seq];
      if (event && passes(event)) numbers.push(seq);
    }
    return numbers;
  }

  /** The next loaded event after a number that passes. */
  next(after: number, passes: (event: LogEvent) => boolean): LogEvent | null {
    for (let seq = Math.max(after + 1, this.oldest); seq <= this.last; seq++) {
      const event = this.events[seq];
      if (event && passes(event)) return event;
    }
    return null;
  }
}

/** Which events the timeline shows. */
export interface EventFilter {
  /** Kinds that are hidden. */
  hidden: ReadonlySet<string>;
  /** Only what a client that stopped here has missed: what callers see, after this number. */
  missedAfter: number | null;
}

export function isFiltering(filter: EventFilter): boolean {
  return filter.hidden.size > 0 || filter.missedAfter !== null;
}

export function passesFilter(event: LogEvent, filter: EventFilter): boolean {
  if (filter.hidden.has(event.kind)) return false;
  return filter.missedAfter === null || (event.is_streamed && event.seq > filter.missedAfter);
}

/** What a client has missed that has read up to a number. Counts only what is loaded. */
export function missedBy(log: EventLog, after: number): { events: number; bytes: number } {
  let bytes = 0;
  const numbers = log.select((event) => event.is_streamed && event.seq > after);
  for (const seq of numbers) bytes += log.get(seq)?.size ?? 0;
  return { events: numbers.length, bytes };
}

export type FetchPage = (after: number, limit: number) => Promise<TaskLog>;

/** Loads a log page by page: first what is looked at, then the rest as far as the browser may keep it. */
export class LogLoader {
  private isRunning = false;
  private wanted: { from: number; to: number } | null = null;
  private isClosed = false;
  error: unknown = null;

  constructor(
    private readonly log: EventLog,
    private readonly fetchPage: FetchPage,
    private readonly changed: () => void,
    private readonly maxBytes = 64_000_000,
  ) {}

  /** Load a range of numbers next, before all others. */
  want(from: number, to: number): void {
    this.wanted = { from, to };
    void this.run();
  }

  /** Load what is missing. Does nothing while it is at work. */
  async run(): Promise<void> {
    if (this.isRunning || this.isClosed) return;
    this.isRunning = true;
    try {
      for (let missing = this.nextMissing(); missing !== null && !this.isClosed; missing = this.nextMissing()) {
        const page = await this.fetchPage(missing - 1, PAGE_EVENTS);
        if (this.isClosed) return;
        this.log.addPage(missing - 1, page);
        this.error = null;
        this.changed();
      }
    } catch (error) {
      this.error = error;
      this.changed();
    } finally {
      this.isRunning = false;
    }
  }

  close(): void {
    this.isClosed = true;
  }

  private nextMissing(): number | null {
    if (this.wanted !== null) {
      const missing = this.log.firstMissing(this.wanted.from, this.wanted.to);
      if (missing !== null) return missing;
      this.wanted = null;
    }
    if (this.log.bytes > this.maxBytes) return null;
    return this.log.firstMissing(this.log.oldest, this.log.last);
  }
}
