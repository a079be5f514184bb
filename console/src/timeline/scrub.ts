// The task as it was after any event, fast enough for a slider: snapshots of the task at intervals, and from the
// nearest one the events up to the number.
//
// Snapshots lie further apart the more parts a task has, so that all of them together take memory in proportion to the
// log. Where an event's body is too long to be here, or is not loaded, the server folds, and its result is kept too.

import { TaskFold } from "../a2a/fold.ts";
import type { Task } from "../a2a/types.ts";
import { applyEvent } from "./events.ts";
import type { EventLog } from "./log.ts";

const INTERVAL = 256;
const MAX_LEARNED = 8;

interface Snapshot {
  seq: number;
  task: Task;
}

export class ScrubHistory {
  /** In order of their numbers. */
  private readonly snapshots: Snapshot[] = [];
  private readonly learned: Snapshot[] = [];
  /** Where the last look ended: the next one is often a step further. */
  private recent: { seq: number; fold: TaskFold } | null = null;

  constructor(private readonly log: EventLog) {}

  /** The task after event n; null if only the server can tell. */
  at(n: number): Task | null {
    const start = this.nearest(n);
    if (start === null && this.log.oldest > 1) return null;
    let since = start?.seq ?? 0;
    const canGoOn = this.recent !== null && this.recent.seq <= n && this.recent.seq >= since;
    const current = canGoOn ? this.recent! : { seq: since, fold: new TaskFold(start?.task) };
    this.recent = current;
    while (current.seq < n) {
      const event = this.log.get(current.seq + 1);
      if (event === undefined || (event !== null && !applyEvent(current.fold, event))) return null;
      const seq = ++current.seq;
      if ((seq - since) % INTERVAL !== 0) continue;
      const task = current.fold.task();
      if (task === null || seq - since < weightOf(task)) continue;
      this.insert({ seq, task });
      since = seq;
    }
    return current.fold.task();
  }

  /** Keep what the server has folded. */
  learn(n: number, task: Task): void {
    this.learned.push({ seq: n, task });
    if (this.learned.length > MAX_LEARNED) this.learned.shift();
  }

  /** How many snapshots there are. */
  get size(): number {
    return this.snapshots.length + this.learned.length;
  }

  private nearest(n: number): Snapshot | null {
    let low = 0;
    let high = this.snapshots.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.snapshots[middle]!.seq <= n) low = middle + 1;
      else high = middle;
    }
    let best = this.snapshots[low - 1] ?? null;
    for (const snapshot of this.learned) {
      if (snapshot.seq <= n && (best === null || snapshot.seq > best.seq)) best = snapshot;
    }
    return best;
  }

  private insert(snapshot: Snapshot): void {
    let index = this.snapshots.length;
    while (index > 0 && this.snapshots[index - 1]!.seq > snapshot.seq) index--;
    if (this.snapshots[index - 1]?.seq !== snapshot.seq) this.snapshots.splice(index, 0, snapshot);
  }
}

/** How much a snapshot takes that others do not share: texts are shared, lists are not. */
function weightOf(task: Task): number {
  const parts = (task.artifacts ?? []).reduce((sum, artifact) => sum + (artifact.parts?.length ?? 0) + 1, 0);
  return parts + (task.history?.length ?? 0);
}
