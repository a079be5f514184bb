// Any section that is data: its table with a filter and further pages, the details of a row, and its actions.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { JsonValue } from "../../a2a/types.ts";
import { DataView } from "../../content/data_view.tsx";
import { plural, shortLine } from "../../text/safe.ts";
import { Badge, Button, type Column as TableColumn, Dialog, EmptyState, Facts, LoadState, Name, Table, TextInput, useLoad } from "../../ui/index.ts";
import { ActionDialog, beginAction, type ActionRun } from "./action_dialog.tsx";
import { Head } from "./head.tsx";
import { call } from "./host_call.ts";
import { actionsOf, cellText, fill, nameOf, pathFor, valueAt, type Action, type Column, type Rights, type Row, type Section } from "./section.ts";

export interface SectionPageProps {
  section: Section;
  rights: Rights;
  /** Further buttons of a row. */
  rowButtons?: (row: Row) => ComponentChildren;
}

/** Rows from which on a filter is offered. */
const FILTER_FROM = 8;
/** Actions that a row shows itself; the others are in its details. */
const SHOWN_ACTIONS = 2;

export function SectionPage({ section, rights, rowButtons }: SectionPageProps) {
  const list = useRows(section);
  const [run, setRun] = useState<ActionRun | null>(null);
  const [open, setOpen] = useState<Row | null>(null);
  const [text, setText] = useState("");
  const begin = (action: Action, row: Row) => {
    setOpen(null);
    beginAction({ section, action, row }, setRun, list.reload);
  };
  const shown = useMemo(() => list.rows.filter((row) => hasText(section, row, text)), [list.rows, text]);
  const buttons = (actions: readonly Action[], row: Row) =>
    actions.map((action) => (
      <Button key={action.label} small onClick={() => begin(action, row)}>{action.label}</Button>
    ));
  return (
    <>
      <Head title={section.title} about={section.about} onReload={list.reload}>{buttons(actionsOf(section.create, {}, rights), {})}</Head>
      <LoadState of={{ ...list, value: list.reply }} text={`Reading ${section.title.toLowerCase()}…`} />
      {list.reply && section.summary && <p class="operate-summary">{fill(section.summary, "", list.reply)}</p>}
      {list.rows.length >= FILTER_FROM && (
        <div class="operate-filter">
          <TextInput label={`Filter ${section.title.toLowerCase()}`} hideLabel type="search" value={text} onInput={setText} placeholder="Filter" />
          <span class="dim" role="status">{text ? `${shown.length} of ` : ""}{plural(list.rows.length, "row")}{list.next === null ? "" : " so far"}</span>
        </div>
      )}
      {list.reply && (
        <Table
          caption={section.title} rows={shown} rowKey={(row) => `${String(row[section.key])} ${nameOf(row)}`}
          columns={columnsOf(section, setOpen, (row) => (
            <RowActions actions={actionsOf(section.actions, row, rights)} row={row} onRun={begin} onMore={() => setOpen(row)}>{rowButtons?.(row)}</RowActions>
          ))}
          empty={text ? <EmptyState title="No row has this text" /> : <EmptyState title={section.empty[0]}>{section.empty[1]}</EmptyState>}
        />
      )}
      {list.next !== null && <div><Button busy={list.isLoading && "Reading…"} onClick={list.more}>Read more</Button></div>}
      {open && <RowDialog section={section} row={open} onClose={() => setOpen(null)}>{buttons(actionsOf(section.actions, open, rights), open)}</RowDialog>}
      {run && <ActionDialog run={run} onClose={() => setRun(null)} onDone={list.reload} />}
    </>
  );
}

// --- rows ------------------------------------------------------------------------------------------------------------

/** The rows of a section, page by page; read again now and then if the section says so. */
function useRows(section: Section) {
  const [{ after, earlier }, read] = useState(FIRST_PAGE);
  const query = after === null ? {} : { [section.paging![1]]: String(after) };
  const page = useLoad(async (signal) => {
    const reply = await call("GET", section.path, { query, signal });
    const added = rowsIn(section, reply);
    return { reply, rows: [...earlier, ...added], next: nextOf(section, reply, added) };
  }, [section.path, after, earlier]);
  useEffect(() => {
    if (!section.refresh) return;
    const timer = setInterval(() => document.visibilityState === "visible" && page.reload(), section.refresh * 1000);
    return () => clearInterval(timer);
  }, [section.id]);
  const { reply, rows, next } = page.value ?? NOTHING;
  return {
    reply, rows, next, error: page.error, isLoading: page.isLoading,
    more: () => read({ after: next, earlier: [...rows] }),
    reload: () => read({ after: null, earlier: [] }),
  };
}

interface From {
  /** The value with which the page is asked for; null for the first one. */
  after: unknown;
  /** The rows of the pages before it. */
  earlier: Row[];
}

const FIRST_PAGE: From = { after: null, earlier: [] };
const NOTHING = { reply: undefined, rows: [], next: null };

export function rowsIn(section: Section, reply: Row | undefined): Row[] {
  const rows = reply?.[section.rows];
  return Array.isArray(rows) ? (rows as Row[]) : [];
}

/** How many rows a page has by default, where the reply does not say whether there are more. */
const PAGE_ROWS = 50;

/** The value with which the next page is asked for; null if this is the last one. */
export function nextOf(section: Section, reply: Row | undefined, rows: readonly Row[]): unknown {
  if (!section.paging || !reply) return null;
  const [next] = section.paging;
  if (!next.startsWith("@")) return reply[next] ?? null;
  return rows.length >= PAGE_ROWS ? (rows.at(-1)?.[next.slice(1)] ?? null) : null;
}

function hasText(section: Section, row: Row, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return !wanted || section.columns.some(([member, , kind]) => cellText(valueAt(row, member), kind).toLowerCase().includes(wanted));
}

// --- cells -----------------------------------------------------------------------------------------------------------

const TONES: Record<string, "good" | "bad" | "waiting" | "active"> = {
  active: "good", ready: "good", connected: "good", healthy: "good", alive: "good",
  failed: "bad", unreachable: "bad", expired: "bad", unhealthy: "bad",
  paused: "waiting", waiting: "waiting", changed: "waiting", draining: "waiting",
  running: "active", connecting: "active",
};

export function Cell({ column: [member, , kind, empty], row }: { column: Column; row: Row }) {
  const value = valueAt(row, member);
  const text = cellText(value, kind);
  if (!text) return <span class="dim">{empty ?? "–"}</span>;
  if (kind === "state") return <Badge tone={TONES[text] ?? "neutral"}>{shortLine(text, 40)}</Badge>;
  if (kind === "yes" && value === true) return <strong>yes</strong>;
  if (kind === "code") return <code><Name text={text} length={60} /></code>;
  return kind === "time" ? <span class="nowrap">{text}</span> : <Name text={text} length={100} />;
}

function columnsOf(section: Section, onOpen: (row: Row) => void, actions: (row: Row) => ComponentChildren): TableColumn<Row>[] {
  const columns = section.columns.map((column, index): TableColumn<Row> => ({
    title: column[1],
    isNumber: column[2] === "number",
    isHeading: index === 0,
    isMinor: index > 2,
    render: (row) => {
      const cell = <Cell column={column} row={row} />;
      if (index > 0) return cell;
      const href = section.link?.(row);
      return href ? <a href={href}>{cell}</a> : <button type="button" class="link" onClick={() => onOpen(row)}>{cell}</button>;
    },
  }));
  return section.actions ? [...columns, { title: "Actions", render: actions }] : columns;
}

interface RowActionsProps {
  actions: readonly Action[];
  row: Row;
  onRun: (action: Action, row: Row) => void;
  onMore: () => void;
  children?: ComponentChildren;
}

function RowActions({ actions, row, onRun, onMore, children }: RowActionsProps) {
  const shown = actions.length > SHOWN_ACTIONS + 1 ? actions.slice(0, SHOWN_ACTIONS) : actions;
  return (
    <div class="operate-actions" role="group" aria-label={`Actions of ${shortLine(nameOf(row), 60)}`}>
      {children}
      {shown.map((action) => <Button key={action.label} small kind="quiet" onClick={() => onRun(action, row)}>{action.label}</Button>)}
      {shown.length < actions.length && <Button small kind="quiet" onClick={onMore}>More…</Button>}
    </div>
  );
}

// --- details ---------------------------------------------------------------------------------------------------------

function RowDialog({ section, row, onClose, children }: { section: Section; row: Row; onClose: () => void; children: ComponentChildren }) {
  const path = section.details?.path;
  const more = useLoad(async (signal) => (path ? call("GET", pathFor(section, path, row), { signal }) : {}), [path, row]);
  const whole: Row = { ...row, ...more.value };
  return (
    <Dialog title={`${section.title}: ${shortLine(nameOf(row), 60)}`} onClose={onClose} wide>
      <div class="operate-buttons">{children}</div>
      <Facts facts={section.columns.map((column) => [column[1], <Cell column={column} row={row} />] as const)} />
      {path && <LoadState of={more} text="Reading more…" />}
      {(section.details?.members ?? []).map((member) => <Detail key={member} name={member} value={whole[member]} />)}
    </Dialog>
  );
}

function Detail({ name, value }: { name: string; value: unknown }) {
  if (value === undefined || value === null || value === "") return null;
  return (
    <section class="operate-detail">
      <h3>{name.replaceAll("_", " ")}</h3>
      {typeof value === "string" ? <p class="operate-text"><Name text={value} length={2_000} canExpand /></p> : <DataView value={value as JsonValue} label={name} />}
    </section>
  );
}
