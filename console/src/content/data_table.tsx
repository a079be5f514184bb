// A list of flat objects as a table: columns sort, and long tables are shown in pages.

import { useMemo, useState } from "preact/hooks";
import type { JsonValue } from "../a2a/types.ts";
import { countText, safeLine, safeText } from "../text/safe.ts";
import { compareCells, type TableData } from "./data_rows.ts";

const PAGE = 50;
const MAX_CELL = 500;

interface Order {
  column: string;
  isUp: boolean;
}

/** A table that `tableOf` has found. */
export function DataTable({ table, label = "Data" }: { table: TableData; label?: string }) {
  const [order, setOrder] = useState<Order | null>(null);
  const [page, setPage] = useState(0);
  const rows = useMemo(() => {
    if (!order) return table.rows;
    const sign = order.isUp ? 1 : -1;
    return [...table.rows].sort((one, other) => sign * compareCells(one[order.column], other[order.column]));
  }, [table, order]);
  const pages = Math.ceil(rows.length / PAGE);
  const first = Math.min(page, pages - 1) * PAGE;

  function sortBy(column: string) {
    setPage(0);
    setOrder(order?.column === column ? (order.isUp ? { column, isUp: false } : null) : { column, isUp: true });
  }

  return (
    <>
      <div class="scroll-x" tabIndex={0} role="group" aria-label={`${label}, ${rows.length} rows`}>
        <table class="md-table data-table">
          <thead>
            <tr>{table.columns.map((column) => <Head key={column} column={column} order={order} onSort={sortBy} />)}</tr>
          </thead>
          <tbody>
            {rows.slice(first, first + PAGE).map((row, index) => (
              <tr key={first + index}>
                {table.columns.map((column) => <Cell key={column} value={row[column]} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {pages > 1 && (
        <p class="pager">
          <button type="button" class="small" disabled={first === 0} onClick={() => setPage(first / PAGE - 1)}>Previous rows</button>
          <span>{countText(first + 1)}–{countText(Math.min(first + PAGE, rows.length))} of {countText(rows.length)}</span>
          <button type="button" class="small" disabled={first + PAGE >= rows.length} onClick={() => setPage(first / PAGE + 1)}>Next rows</button>
        </p>
      )}
    </>
  );
}

function Head({ column, order, onSort }: { column: string; order: Order | null; onSort: (column: string) => void }) {
  const isSorted = order?.column === column;
  return (
    <th scope="col" {...(isSorted ? { "aria-sort": order.isUp ? ("ascending" as const) : ("descending" as const) } : {})}>
      <button type="button" class="sort" onClick={() => onSort(column)}>
        {safeLine(column.slice(0, 100)) || "“”"}
        <span aria-hidden="true">{isSorted ? (order.isUp ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  );
}

function Cell({ value }: { value: JsonValue | undefined }) {
  if (value === undefined) return <td />;
  if (typeof value === "number") return <td class="md-right">{String(value)}</td>;
  if (typeof value !== "string") return <td class="data-null">{String(value)}</td>;
  return <td dir="auto">{safeText(value.length > MAX_CELL ? `${value.slice(0, MAX_CELL)}…` : value)}</td>;
}
