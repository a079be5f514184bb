// A tree of runs as a tree grid with a waterfall: a row per node, a bar over time, tokens and cost.
//
// Only the rows in view are in the document, and the one with the focus. All rows have the same height, which is
// measured, since it depends on the width of the page and on the size of its text.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { countText, durationText, shortLine } from "../text/safe.ts";
import { Icon } from "../ui/index.ts";
import { treeAction, type TreeAction } from "./keyboard.ts";
import { approvalOf, barOf, isWaiting, type Extent, type Sums, ticksOf, type TreeRow } from "./model.ts";

const MORE_ROWS = 8;
const USUAL_HEIGHT = 30;

export interface TreeGridProps {
  rows: readonly TreeRow[];
  window: Extent;
  /** The present: the end of bars that run. */
  now: number;
  /** The id of the row that has or gets the focus. */
  focused: string | null;
  onAction: (action: TreeAction) => void;
}

export function TreeGrid({ rows, window, now, focused, onAction }: TreeGridProps) {
  const box = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(USUAL_HEIGHT);
  const [view, setView] = useState({ top: 0, height: 600 });
  const focusedIndex = Math.max(0, rows.findIndex((row) => row.node.id === focused));
  const mustFocus = useRef(false);

  useLayoutEffect(() => {
    const element = box.current!;
    const look = () => {
      setView({ top: element.scrollTop, height: element.clientHeight });
      const row = element.querySelector<HTMLElement>(".tree-row");
      if (row && row.offsetHeight > 0) setHeight(row.offsetHeight);
    };
    const size = new ResizeObserver(look);
    size.observe(element);
    look();
    return () => size.disconnect();
  }, []);

  useEffect(() => {
    if (!mustFocus.current) return;
    mustFocus.current = false;
    const element = box.current!;
    const top = focusedIndex * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + bodyHeight(element)) element.scrollTop = top + height - bodyHeight(element);
    element.querySelector<HTMLElement>(`[data-index="${focusedIndex}"]`)?.focus({ preventScroll: true });
  }, [focusedIndex, rows]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = treeAction(event.key, rows, focusedIndex);
    if (action === null) return;
    event.preventDefault();
    mustFocus.current = action.do !== "open";
    onAction(action);
  };

  const first = Math.max(0, Math.floor(view.top / height) - MORE_ROWS);
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + MORE_ROWS);
  const shown = new Set(Array.from({ length: Math.max(0, end - first) }, (_, offset) => first + offset));
  if (focusedIndex < rows.length) shown.add(focusedIndex);
  return (
    <div
      ref={box} class="tree" role="treegrid" aria-label="Runs" aria-rowcount={rows.length + 1} aria-colcount={6}
      onScroll={() => setView({ top: box.current!.scrollTop, height: box.current!.clientHeight })} onKeyDown={onKeyDown}
    >
      <TreeHead window={window} />
      <div class="tree-rows" role="rowgroup" style={{ height: `${rows.length * height}px` }}>
        {[...shown].sort((a, b) => a - b).map((index) => (
          <Row
            key={rows[index]!.node.id} row={rows[index]!} index={index} top={index * height} window={window} now={now}
            isFocused={index === focusedIndex} onAction={onAction}
          />
        ))}
      </div>
    </div>
  );
}

function bodyHeight(element: HTMLElement): number {
  return element.clientHeight - (element.querySelector<HTMLElement>(".tree-head")?.offsetHeight ?? 0);
}

function TreeHead({ window }: { window: Extent }) {
  const length = window.end - window.start;
  return (
    <div class="tree-head" role="rowgroup">
      <div class="tree-cells" role="row" aria-rowindex={1}>
        <span role="columnheader" class="tree-name">Node</span>
        <span role="columnheader" class="tree-state">State</span>
        <span role="columnheader" class="tree-bars">
          <span class="visually-hidden">Time</span>
          {ticksOf(window).filter((tick) => tick < 0.94 * length).map((tick) => (
            <span key={tick} class="tree-tick" aria-hidden="true" style={{ left: `${(tick / length) * 100}%` }}>{tick === 0 ? "0" : durationText(tick)}</span>
          ))}
        </span>
        <span role="columnheader" class="tree-took">Took</span>
        <span role="columnheader" class="tree-tokens">Tokens</span>
        <span role="columnheader" class="tree-cost">Cost</span>
      </div>
    </div>
  );
}

interface RowProps {
  row: TreeRow;
  index: number;
  top: number;
  window: Extent;
  now: number;
  isFocused: boolean;
  onAction: (action: TreeAction) => void;
}

function Row({ row, index, top, window, now, isFocused, onAction }: RowProps) {
  const { node, sums } = row;
  const end = row.isRunning ? Math.max(row.end, now) : row.end;
  const bar = barOf({ start: row.start, end }, window);
  // A collapsed row stands for everything below it.
  const shown = row.hasChildren && !row.isExpanded ? sums : ownOf(row);
  return (
    <div
      class={`tree-row${isFocused ? " is-focused" : ""}`} role="row" data-index={index} style={{ top: `${top}px` }}
      tabIndex={isFocused ? 0 : -1} aria-rowindex={index + 2} aria-level={row.level} aria-posinset={row.position} aria-setsize={row.siblings}
      aria-expanded={row.hasChildren ? row.isExpanded : undefined} aria-selected={isFocused}
      onClick={() => onAction({ do: "focus", index })} onDblClick={() => onAction({ do: "open", index })}
    >
      <div class="tree-cells" role="presentation">
        <span class="tree-name" role="gridcell" style={{ "--level": Math.min(row.level - 1, 24) }}>
          <span
            class={row.hasChildren ? "tree-twist" : "tree-twist tree-twist-none"} aria-hidden="true"
            onClick={(event) => {
              if (!row.hasChildren) return;
              event.stopPropagation();
              onAction({ do: row.isExpanded ? "collapse" : "expand", index });
            }}
          >
            {row.hasChildren && <Icon name={row.isExpanded ? "down" : "right"} size={12} />}
          </span>
          <span class={`tree-kind tree-kind-${node.kind}`}>{node.kind}</span>
          <bdi class="cut">{shortLine(node.name, 100) || node.kind}</bdi>
        </span>
        <span class={`tree-state tree-state-${stateTone(row)}`} role="gridcell">{stateText(row)}</span>
        <span class="tree-bars" role="gridcell">
          <span class="visually-hidden">starts after {durationText(row.start - window.start)}</span>
          <span
            class={`tree-bar tree-bar-${barTone(row)}${row.isRunning ? " is-running" : ""}`} aria-hidden="true"
            style={{ left: `${bar.left}%`, width: `${bar.width}%` }}
          />
        </span>
        <span class="tree-took" role="gridcell">{node.started_at === null ? "" : durationText((isWaiting(node) ? Math.max(end, now) : end) - row.start)}</span>
        <span class="tree-tokens" role="gridcell">{tokensText(shown)}</span>
        <span class="tree-cost" role="gridcell">{costText(shown)}</span>
      </div>
    </div>
  );
}

function ownOf(row: TreeRow): Pick<Sums, "inputTokens" | "outputTokens" | "cost"> {
  const { node } = row;
  const amount = node.cost === null ? 0 : Number(node.cost);
  return { inputTokens: node.input_tokens, outputTokens: node.output_tokens, cost: amount ? new Map([[node.currency, amount]]) : new Map() };
}

/** "1,200 + 80": tokens in, and tokens out. */
export function tokensText(sums: Pick<Sums, "inputTokens" | "outputTokens">): string {
  if (sums.inputTokens === 0 && sums.outputTokens === 0) return "";
  return `${countText(sums.inputTokens)} + ${countText(sums.outputTokens)}`;
}

/** "0.0125 USD", one after the other if there are several currencies. */
export function costText(sums: Pick<Sums, "cost">): string {
  return [...sums.cost].map(([currency, amount]) => `${Number(amount.toPrecision(4))} ${shortLine(currency, 8)}`.trim()).join(", ");
}

function stateText(row: TreeRow): string {
  if (row.node.error !== "") return "failed";
  if (approvalOf(row.node) !== null && row.node.ended_at === null) return "needs approval";
  return row.node.state.replaceAll("-", " ").replaceAll("_", " ");
}

function stateTone(row: TreeRow): string {
  if (row.node.error !== "" || /^(failed|rejected|error|denied)/.test(row.node.state)) return "bad";
  if (isWaiting(row.node)) return "waiting";
  return row.isRunning ? "active" : "quiet";
}

function barTone(row: TreeRow): string {
  const tone = stateTone(row);
  return tone === "quiet" || tone === "active" ? row.node.kind : tone;
}
