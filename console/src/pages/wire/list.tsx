// The list of lines, and the list of exchanges with the caller's side and the agent's side next to each other.

import { useMemo } from "preact/hooks";
import { links } from "../../router.ts";
import { bytesText, durationText, shortLine } from "../../text/safe.ts";
import { ButtonLink, clockText, EmptyState, Progress, VirtualList } from "../../ui/index.ts";
import type { WireView } from "./toolbar.tsx";
import { exchangesOf, isFiltering, type Exchange, type HeldLine, type Pair, type WireFilter } from "./wire_log.ts";

export interface WireListProps {
  lines: readonly HeldLine[];
  view: WireView;
  filter: WireFilter;
  /** The key of the selected line. */
  selected: number | null;
  onSelect: (key: number) => void;
  isPaused: boolean;
  /** Whether the server has begun to record. */
  isRecording: boolean;
}

const ROW = 28;

export function WireList(props: WireListProps) {
  if (!props.lines.length && !props.isRecording) return <Progress text="Connecting to the wire…" />;
  if (!props.lines.length) return <Nothing isFiltered={isFiltering(props.filter)} />;
  return props.view === "lines" ? <Lines {...props} /> : <Exchanges {...props} />;
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return <EmptyState title="No line matches the filters" icon="filter">Lines that match appear here as they come.</EmptyState>;
  }
  return (
    <EmptyState
      title="Nothing has passed yet" icon="wire"
      // In a new tab, because the server would not record the message once this page is left.
      actions={<ButtonLink href={links.chat()} icon="chat" newTab>Send a message in a new tab</ButtonLink>}
    >
      Requests, replies, events and errors appear here as they come. They are recorded while this page is open.
    </EmptyState>
  );
}

// --- lines -----------------------------------------------------------------------------------------------------------

function Lines({ lines, selected, onSelect, isPaused }: WireListProps) {
  return (
    <VirtualList
      label="Lines" class="wire-list" items={lines} itemKey={(line) => line.key} estimate={ROW} follow={!isPaused && selected === null}
      selected={selected === null ? -1 : lines.findIndex((line) => line.key === selected)}
      onSelect={(index) => onSelect(lines[index]!.key)}
      render={(line) => <LineRow line={line} />}
    />
  );
}

/** Whether a line goes towards the agent. */
function isInward(line: HeldLine): boolean {
  return line.kind === "request" || line.direction === "proxy → agent";
}

function LineRow({ line }: { line: HeldLine }) {
  return (
    <div class={line.failed ? "wire-line is-failed" : "wire-line"}>
      <time class="wire-time" dateTime={line.at}>{clockText(Date.parse(line.at))}</time>
      <span class="wire-exchange" title="Exchange">{line.exchange || "–"}</span>
      <span class="wire-direction">
        <span aria-hidden="true">{isInward(line) ? "→" : "←"}</span> {shortLine(line.direction, 30)}
      </span>
      <span class={`wire-kind wire-kind-${kindOf(line)}`}>{shortLine(line.kind, 12)}</span>
      <span class="wire-what"><bdi>{shortLine(titleOf(line), 120)}</bdi></span>
      <span class="wire-agent"><bdi>{shortLine(line.agent, 40)}</bdi></span>
      <span class="wire-version">{shortLine(`${line.version} ${line.binding}`, 30)}</span>
      <span class="wire-size">{bytesText(line.size)}</span>
      <span class="wire-ms">{line.milliseconds === null ? "" : durationText(line.milliseconds)}</span>
    </div>
  );
}

function kindOf(line: HeldLine): string {
  return line.failed ? "error" : line.kind === "request" ? "request" : "other";
}

/** The operation, and what exactly was sent if that is something else. */
export function titleOf(line: HeldLine): string {
  return line.what && line.what !== line.operation ? `${line.operation} ${line.what}`.trim() : line.operation || line.what;
}

// --- exchanges -------------------------------------------------------------------------------------------------------

type Row = { key: string; exchange: Exchange; pair: Pair | null };

function Exchanges({ lines, selected, onSelect, isPaused }: WireListProps) {
  const rows = useMemo(() => exchangesOf(lines).flatMap(rowsOf), [lines]);
  const has = (row: Row) => row.pair !== null && [row.pair.near?.key, row.pair.far?.key].includes(selected ?? -1);
  return (
    <VirtualList
      label="Exchanges" class="wire-list" items={rows} itemKey={(row) => row.key} estimate={ROW} follow={!isPaused && selected === null}
      selected={selected === null ? -1 : rows.findIndex(has)}
      onSelect={(index) => onSelect(keyOf(rows[index]!))}
      render={(row) => (row.pair ? <PairRow pair={row.pair} hasFar={row.exchange.hasFar} /> : <ExchangeRow exchange={row.exchange} />)}
    />
  );
}

function rowsOf(exchange: Exchange): Row[] {
  const head: Row = { key: `e${exchange.key}`, exchange, pair: null };
  return [head, ...exchange.pairs.map((pair): Row => ({ key: `p${pair.key}`, exchange, pair }))];
}

function keyOf(row: Row): number {
  const pair = row.pair ?? row.exchange.pairs[0]!;
  return (pair.near ?? pair.far)!.key;
}

function ExchangeRow({ exchange }: { exchange: Exchange }) {
  const { first } = exchange;
  return (
    <div class={exchange.failed ? "wire-head is-failed" : "wire-head"}>
      <time class="wire-time" dateTime={first.at}>{clockText(Date.parse(first.at))}</time>
      <strong><bdi>{shortLine(first.operation || first.what, 60)}</bdi></strong>
      <span class="wire-agent"><bdi>{shortLine(first.agent, 40)}</bdi></span>
      {first.caller && <span class="wire-caller">from <bdi>{shortLine(first.caller, 40)}</bdi></span>}
      {exchange.failed && <span class="wire-kind wire-kind-error">failed</span>}
      <span class="wire-ms">{exchange.milliseconds === null ? "" : durationText(exchange.milliseconds)}</span>
    </div>
  );
}

function PairRow({ pair, hasFar }: { pair: Pair; hasFar: boolean }) {
  if (!hasFar) return <div class="wire-pair wire-pair-single"><SideCell line={pair.near} /></div>;
  return <div class="wire-pair"><SideCell line={pair.near} /><SideCell line={pair.far} /></div>;
}

function SideCell({ line }: { line: HeldLine | null }) {
  if (!line) return <span class="wire-side wire-side-none">–</span>;
  return (
    <span class={line.failed ? "wire-side is-failed" : "wire-side"}>
      <span class="wire-arrow" title={line.direction}>{isInward(line) ? "→" : "←"}</span>
      <span class="visually-hidden">{line.direction}, {line.kind}: </span>
      <span class="wire-version">{shortLine(`${line.version} ${line.binding}`, 24)}</span>
      <span class="wire-what"><bdi>{shortLine(line.what || line.operation, 100)}</bdi></span>
      <span class="wire-size">{bytesText(line.size)}</span>
    </span>
  );
}
