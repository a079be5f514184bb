// A table for what fits on some screens. For more rows, use VirtualList. Wide tables scroll inside themselves.

import type { ComponentChildren } from "preact";

export interface Column<Row> {
  title: string;
  render: (row: Row) => ComponentChildren;
  /** Numbers are aligned at their end. */
  isNumber?: boolean;
  /** Left out below 640 px. */
  isMinor?: boolean;
  /** Names the row for screen readers. */
  isHeading?: boolean;
}

export interface TableProps<Row> {
  /** What the table lists, for screen readers. */
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string | number;
  /** Shown instead of a table without rows. */
  empty?: ComponentChildren;
}

export function Table<Row>({ caption, columns, rows, rowKey, empty }: TableProps<Row>) {
  if (!rows.length && empty) return <>{empty}</>;
  const classOf = (column: Column<Row>) => `${column.isNumber ? "number" : ""}${column.isMinor ? " minor" : ""}`.trim();
  return (
    <div class="table-scroll" role="region" aria-label={caption} tabIndex={0}>
      <table class="table">
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>{columns.map((column) => <th key={column.title} scope="col" class={classOf(column)}>{column.title}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) =>
                column.isHeading
                  ? <th key={column.title} scope="row" class={classOf(column)}>{column.render(row)}</th>
                  : <td key={column.title} class={classOf(column)}>{column.render(row)}</td>,
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
