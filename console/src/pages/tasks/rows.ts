// The rows of the task list: pages that were read, and changes that came live, in the order of the server.
//
// The newest status is first; of equal ones the greater id. A row that changed moves to where it belongs. A row that is
// older than the last page that was read is left out, since its page has it.

import type { TaskPage, TaskRow } from "../../api/types.ts";

/** Ids belong to an agent and a tenant: others may have the same. */
export function keyOf(row: TaskRow): string {
  return `${row.tenant}\n${row.agent}\n${row.id}`;
}

/** What a task's tenant is called. */
export function tenantOf(row: TaskRow & { tenant_name?: string }): string {
  return row.tenant_name || row.tenant;
}

export class TaskRows {
  rows: TaskRow[] = [];
  next: string | null = null;
  total: number | null = null;
  /** Tasks that a search for text has looked at, and how far back. */
  searched: { tasks: number; until: string } | null = null;
  /** How many tasks the last page had: few, if a search finds little. */
  lastCount = 0;
  private isStarted = false;

  get hasMore(): boolean {
    return !this.isStarted || this.next !== null;
  }

  /** Add the page after the last one. */
  addPage(page: TaskPage): void {
    // Only the first page is counted.
    if (!this.isStarted) this.total = page.total;
    this.isStarted = true;
    this.next = page.next;
    this.lastCount = page.tasks.length;
    if (page.searched !== null) {
      this.searched = { tasks: (this.searched?.tasks ?? 0) + page.searched.tasks, until: page.searched.until };
    }
    const known = new Set(this.rows.map(keyOf));
    const added = page.tasks.filter((row) => !known.has(keyOf(row)));
    this.rows = [...this.rows, ...added].sort(newestFirst);
  }

  /** Begin again with a first page. */
  restart(page: TaskPage): void {
    this.rows = [];
    this.isStarted = false;
    this.searched = null;
    this.addPage(page);
  }

  /** Take in what has changed. Returns how many rows are new. */
  change(changed: readonly TaskRow[], removed: readonly string[]): number {
    const gone = new Set(removed);
    const newer = new Map(changed.map((row) => [keyOf(row), row]));
    const known = new Set(this.rows.map(keyOf));
    const oldest = this.rows.at(-1);
    const kept = this.rows.filter((row) => !gone.has(row.id) && !newer.has(keyOf(row)));
    const taken = [...newer.values()].filter(
      (row) => known.has(keyOf(row)) || this.next === null || oldest === undefined || newestFirst(row, oldest) < 0,
    );
    const fresh = taken.filter((row) => !known.has(keyOf(row))).length;
    const lost = this.rows.length - kept.length - (taken.length - fresh);
    this.rows = merged(kept, taken.sort(newestFirst));
    if (this.total !== null) this.total += fresh - lost;
    return fresh;
  }
}

function newestFirst(left: TaskRow, right: TaskRow): number {
  if (left.updated_at !== right.updated_at) return left.updated_at < right.updated_at ? 1 : -1;
  return left.id < right.id ? 1 : left.id > right.id ? -1 : 0;
}

/** Two sorted lists as one. */
function merged(left: TaskRow[], right: TaskRow[]): TaskRow[] {
  if (right.length === 0) return left;
  const rows: TaskRow[] = [];
  let index = 0;
  for (const row of left) {
    while (index < right.length && newestFirst(right[index]!, row) < 0) rows.push(right[index++]!);
    rows.push(row);
  }
  rows.push(...right.slice(index));
  return rows;
}
