// Tasks in a virtual list. Each row has one link, and the arrow keys move the focus between the links; so Enter opens a
// task, and the browser's own keys open it in another tab.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { TaskRow } from "../../api/types.ts";
import { links } from "../../router.ts";
import { countText, shortLine } from "../../text/safe.ts";
import { nextIndex, StateBadge, Time, VirtualList, type VirtualListHandle } from "../../ui/index.ts";
import { keyOf, tenantOf } from "./rows.ts";

const ROW_HEIGHT = 34;
const PAGE_ROWS = 15;

export interface ListViewProps {
  rows: readonly TaskRow[];
  /** Operators see whose task it is. */
  showTenant: boolean;
  onEnd: () => void;
}

export function ListView({ rows, showTenant, onEnd }: ListViewProps) {
  const handle = useRef<VirtualListHandle>(null!); // set by the list
  const box = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<string | null>(null);
  const mustFocus = useRef(false);
  const index = Math.max(0, rows.findIndex((row) => keyOf(row) === current));

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const isInside = event.target instanceof HTMLAnchorElement;
    const to = nextIndex(event.key, isInside ? index : -1, rows.length, PAGE_ROWS);
    const row = to === null ? undefined : rows[to];
    if (to === null || row === undefined) return;
    event.preventDefault();
    setCurrent(keyOf(row));
    mustFocus.current = true;
    handle.current.scrollTo(to);
    if (to > rows.length - PAGE_ROWS) onEnd();
    // The row may already be the current one, which changes nothing.
    box.current?.querySelector<HTMLElement>(`[data-index="${to}"] a`)?.focus({ preventScroll: true });
  };

  return (
    <div ref={box} class={showTenant ? "task-list task-list-tenant" : "task-list"}>
      <div class="task-row task-row-head" aria-hidden="true">
        <span>State</span><span>Task</span><span>Agent</span>{showTenant && <span>Tenant</span>}<span class="number">Events</span><span>Updated</span>
      </div>
      <VirtualList
        label="Tasks" items={rows} itemKey={keyOf} estimate={ROW_HEIGHT} handle={handle} onEnd={onEnd} onKeyDown={onKeyDown}
        render={(row, at) => (
          <Row row={row} showTenant={showTenant} isCurrent={at === index} mustFocus={mustFocus} onFocus={() => setCurrent(keyOf(row))} />
        )}
      />
    </div>
  );
}

interface RowProps {
  row: TaskRow;
  showTenant: boolean;
  isCurrent: boolean;
  /** The current row takes the focus as soon as it is in the document. */
  mustFocus: { current: boolean };
  onFocus: () => void;
}

function Row({ row, showTenant, isCurrent, mustFocus, onFocus }: RowProps) {
  const link = useRef<HTMLAnchorElement>(null);
  useLayoutEffect(() => {
    if (!isCurrent || !mustFocus.current) return;
    mustFocus.current = false;
    link.current?.focus({ preventScroll: true });
  });
  const isBad = row.state === "failed" || row.state === "rejected";
  return (
    <div class="task-row">
      <span class="task-row-state"><StateBadge state={row.state} /></span>
      <span class="task-row-title">
        <a ref={link} href={links.task(row.agent, row.id)} tabIndex={isCurrent ? 0 : -1} onFocus={onFocus}>
          <bdi>{shortLine(row.title, 140) || shortLine(row.id, 40)}</bdi>
        </a>
        {row.status_text && <span class={isBad ? "task-row-said task-row-bad" : "task-row-said"}><bdi>{shortLine(row.status_text, 160)}</bdi></span>}
      </span>
      <span class="task-row-agent cut"><bdi>{shortLine(row.agent_name || row.agent, 40)}</bdi></span>
      {showTenant && <span class="task-row-tenant cut"><span class="visually-hidden">Tenant </span><bdi>{shortLine(tenantOf(row), 40) || "–"}</bdi></span>}
      <span class="task-row-events number">{row.events > 0 && <>{countText(row.events)}<span class="task-row-unit"> events</span></>}</span>
      <span class="task-row-time"><Time at={row.updated_at} /></span>
    </div>
  );
}
