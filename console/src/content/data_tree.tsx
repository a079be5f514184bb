// Data as a tree that folds: arrow keys move, open and close; only the rows in view are in the page.
// The tree keeps the focus itself and names its active row, so that scrolling cannot lose it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JsonValue } from "../a2a/types.ts";
import { plural, safeLine } from "../text/safe.ts";
import { allContainers, isContainer, openAtFirst, treeRows, type Container, type TreeRow } from "./data_rows.ts";

const ROW_HEIGHT = 22;
/** Rows above and below those in view. */
const MARGIN = 10;
const MAX_VISIBLE_ROWS = 24;
/** Levels by which rows are indented; deeper rows say their depth. */
const MAX_INDENT = 20;
const MAX_TEXT = 300;

let trees = 0;

/** A tree of any JSON value. */
export function DataTree({ value, label = "Data" }: { value: JsonValue; label?: string }) {
  const id = useMemo(() => `tree-${++trees}`, []);
  const [open, setOpen] = useState<ReadonlySet<Container>>(() => openAtFirst(value));
  useEffect(() => setOpen(openAtFirst(value)), [value]);
  const { rows, isWhole } = useMemo(() => treeRows(value, open), [value, open]);
  const [chosen, setActive] = useState(0);
  const active = Math.min(chosen, rows.length - 1);
  const view = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - MARGIN);
  const last = Math.min(rows.length, Math.floor(top / ROW_HEIGHT) + MAX_VISIBLE_ROWS + MARGIN);

  function toggle(index: number, isOpen: boolean) {
    const row = rows[index];
    if (!row || !isContainer(row.value) || row.count === 0) return;
    const next = new Set(open);
    if (isOpen) next.add(row.value);
    else next.delete(row.value);
    setOpen(next);
  }

  function activate(index: number) {
    const at = Math.max(0, Math.min(index, rows.length - 1));
    setActive(at);
    const box = view.current;
    if (!box) return;
    if (at * ROW_HEIGHT < box.scrollTop) box.scrollTop = at * ROW_HEIGHT;
    const bottom = (at + 1) * ROW_HEIGHT - box.clientHeight;
    if (bottom > box.scrollTop) box.scrollTop = bottom;
    setTop(box.scrollTop);
  }

  function onKeyDown(event: KeyboardEvent) {
    const next = moveOf(event.key, active, rows);
    if (next === null) return;
    event.preventDefault();
    if (typeof next === "number") activate(next);
    else if (next === "all") setOpen(allContainers(value));
    else toggle(active, next === "open");
  }

  return (
    <>
      <div
        class="data-tree" role="tree" aria-label={label} tabIndex={0} ref={view} dir="ltr"
        aria-activedescendant={`${id}-${active}`} onKeyDown={onKeyDown}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        style={{ height: `${Math.min(rows.length, MAX_VISIBLE_ROWS) * ROW_HEIGHT + 2}px` }}
      >
        <div role="presentation" class="data-rows" style={{ height: `${rows.length * ROW_HEIGHT}px` }}>
          {rows.slice(first, last).map((row, offset) => {
            const index = first + offset;
            return (
              <Row
                key={index} id={`${id}-${index}`} row={row} isActive={index === active} top={index * ROW_HEIGHT}
                onClick={() => {
                  setActive(index);
                  toggle(index, !row.isOpen);
                }}
              />
            );
          })}
        </div>
      </div>
      {!isWhole && <p class="note">Only the first {plural(rows.length, "row")} are shown. Close some to see others.</p>}
    </>
  );
}

/** The row that a key leads to, or what it does; null for other keys. As in the tree pattern of ARIA. */
export function moveOf(key: string, active: number, rows: readonly TreeRow[]): number | "open" | "close" | "all" | null {
  const row = rows[active];
  switch (key) {
    case "ArrowDown":
      return active + 1;
    case "ArrowUp":
      return active - 1;
    case "Home":
      return 0;
    case "End":
      return rows.length - 1;
    case "PageDown":
      return active + MAX_VISIBLE_ROWS;
    case "PageUp":
      return active - MAX_VISIBLE_ROWS;
    case "*":
      return "all";
    case "ArrowRight":
      if (!row || row.count === 0) return null;
      return row.isOpen ? active + 1 : "open";
    case "ArrowLeft":
      if (row?.isOpen && row.count > 0) return "close";
      return parentOf(active, rows);
    case "Enter":
    case " ":
      return row?.isOpen ? "close" : "open";
    default:
      return null;
  }
}

function parentOf(index: number, rows: readonly TreeRow[]): number {
  const depth = rows[index]?.depth ?? 0;
  for (let at = index - 1; at >= 0; at--) if (rows[at]!.depth < depth) return at;
  return index;
}

interface RowProps {
  id: string;
  row: TreeRow;
  isActive: boolean;
  top: number;
  onClick: () => void;
}

function Row({ id, row, isActive, top, onClick }: RowProps) {
  const isBranch = row.count > 0;
  const name = row.name === null ? "" : safeLine(String(row.name).slice(0, MAX_TEXT));
  return (
    <div
      id={id} role="treeitem" class={isActive ? "data-row active" : "data-row"} onClick={onClick}
      aria-level={row.depth + 1} aria-setsize={row.size} aria-posinset={row.position} aria-selected={isActive}
      {...(isBranch ? { "aria-expanded": row.isOpen } : {})}
      style={{ top: `${top}px`, paddingInlineStart: `${Math.min(row.depth, MAX_INDENT) * 14 + 4}px` }}
    >
      <span class="data-fold" aria-hidden="true">{isBranch ? (row.isOpen ? "▾" : "▸") : ""}</span>
      {row.depth > MAX_INDENT && <span class="data-depth">{row.depth} </span>}
      {row.name !== null && <span class="data-name">{name || "“”"}: </span>}
      <Value row={row} />
    </div>
  );
}

function Value({ row: { value, count } }: { row: TreeRow }) {
  if (Array.isArray(value)) return <span class="data-size">[{plural(count, "item")}]</span>;
  if (isContainer(value)) return <span class="data-size">{`{${plural(count, "member")}}`}</span>;
  if (typeof value === "string") {
    const rest = value.length - MAX_TEXT;
    return (
      <>
        <span class="data-string">"{safeLine(value.slice(0, MAX_TEXT))}{rest > 0 ? "…" : ""}"</span>
        {rest > 0 && <span class="data-size"> {plural(value.length, "character")}</span>}
      </>
    );
  }
  return <span class={`data-${value === null ? "null" : typeof value}`}>{String(value)}</span>;
}
