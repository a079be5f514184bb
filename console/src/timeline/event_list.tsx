// The events of a task as a list: number, time, the pause before each, kind, summary and size.
//
// Compact is a line per event, full shows the whole summary, JSON the body. A long pause is a line of its own. Events
// that are not loaded yet are empty rows, which are asked for when they come into view.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { LogEvent } from "../api/types.ts";
import { jsonText } from "../content/data_rows.ts";
import { bytesText, durationText, safeLine, safeText, shortLine } from "../text/safe.ts";
import { clockText, VirtualList, type VirtualListHandle } from "../ui/index.ts";
import { kindLabel } from "./events.ts";
import { type EventFilter, type EventLog, isFiltering, passesFilter } from "./log.ts";

export type EventView = "compact" | "full" | "json";

/** Pauses from here on are drawn as a line of their own. */
export const LONG_PAUSE_MS = 2_000;
const NOTABLE_PAUSE_MS = 500;
const MAX_JSON = 1_500;
const MAX_SUMMARY = 2_000;
/** Below this width an event has two lines, as in timeline.css. */
const NARROW = 720;
const NARROW_HEIGHT = 49;
const MEASURED_ROUNDS = 3;
const HEIGHTS: Record<EventView, number> = { compact: 29, full: 64, json: 160 };

export interface EventListProps {
  log: EventLog;
  /** Changes when the log has. */
  version: number;
  filter: EventFilter;
  view: EventView;
  /** The number of the chosen event; null: the newest one. */
  cursor: number | null;
  onChoose: (seq: number) => void;
  /** Load these numbers, which are in view. */
  want: (from: number, to: number) => void;
  /** New events arrive. */
  isLive: boolean;
}

export function EventList({ log, version, filter, view, cursor, onChoose, want, isLive }: EventListProps) {
  const handle = useRef<VirtualListHandle>(null!); // set by the list
  const numbers = useMemo(() => {
    if (isFiltering(filter)) return log.select((event) => passesFilter(event, filter));
    return Array.from({ length: log.length }, (_, index) => log.oldest + index);
  }, [log, log.last, log.oldest, filter, isFiltering(filter) ? version : 0]);
  const selected = cursor === null ? (isLive ? -1 : numbers.length - 1) : indexOf(numbers, cursor);
  const wanted = useRef<[number, number] | null>(null);
  useEffect(() => {
    if (wanted.current !== null) want(...wanted.current);
    wanted.current = null;
  });
  const shown = useRef(-1);
  useEffect(() => {
    if (selected < 0) return;
    const where = Math.abs(selected - shown.current) === 1 ? "nearest" : "center";
    shown.current = selected;
    // Rows that come into view are measured, which may move the chosen one again.
    let rounds = MEASURED_ROUNDS;
    let frame = 0;
    const show = () => {
      handle.current?.scrollTo(selected, where);
      if (rounds-- > 0) frame = requestAnimationFrame(show);
    };
    show();
    return () => cancelAnimationFrame(frame);
  }, [selected, view, filter]);
  return (
    <VirtualList
      key={view}
      label="Events"
      class={`events events-${view}`}
      handle={handle}
      items={numbers}
      itemKey={(seq) => seq}
      estimate={view === "compact" && innerWidth <= NARROW ? NARROW_HEIGHT : HEIGHTS[view]}
      selected={selected}
      onSelect={(index) => onChoose(numbers[index]!)}
      follow={isLive && cursor === null}
      render={(seq) => {
        const event = log.get(seq);
        if (event === undefined) {
          wanted.current = wanted.current === null ? [seq, seq] : [Math.min(seq, wanted.current[0]), Math.max(seq, wanted.current[1])];
        }
        return event ? <EventRow event={event} view={view} /> : <AbsentRow seq={seq} isKept={event === undefined} />;
      }}
    />
  );
}

function indexOf(numbers: readonly number[], seq: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < seq) low = middle + 1;
    else high = middle;
  }
  return numbers[low] === seq ? low : -1;
}

function AbsentRow({ seq, isKept }: { seq: number; isKept: boolean }) {
  return (
    <div class="event event-absent">
      <span class="event-seq">{seq}</span>
      <span class="event-summary dim">{isKept ? "Loading…" : "The store does not keep this event."}</span>
    </div>
  );
}

/** One event in a list. */
export function EventRow({ event, view }: { event: LogEvent; view: EventView }) {
  const pause = event.pause_ms ?? 0;
  const at = event.at === null ? NaN : Date.parse(event.at);
  return (
    <>
      {pause >= LONG_PAUSE_MS && (
        <div class="event-gap"><span>{durationText(pause)} pause</span></div>
      )}
      <div class={event.is_streamed ? "event" : "event event-internal"}>
        <span class="event-seq">{event.seq}</span>
        <span class="event-time">{Number.isNaN(at) ? "–" : clockText(at)}</span>
        <span class={pause >= NOTABLE_PAUSE_MS ? "event-pause event-pause-long" : "event-pause"}>
          {event.pause_ms === null ? "" : `+${durationText(pause)}`}
        </span>
        <span class={`event-kind event-kind-${kindClass(event.kind)}`}>{kindLabel(event.kind)}</span>
        <span class="event-summary"><bdi>{view === "compact" ? shortLine(event.summary, 160) : safeText(event.summary.slice(0, MAX_SUMMARY))}</bdi></span>
        <span class="event-size">{bytesText(event.size)}</span>
        {!event.is_streamed && <span class="visually-hidden">, not seen by callers</span>}
        {view === "json" && <pre class="event-json">{shortJson(event)}</pre>}
      </div>
    </>
  );
}

function kindClass(kind: string): string {
  return /^(created|message-added|status|artifact|note|step|question|claimed)$/.test(kind) ? kind : "other";
}

function shortJson(event: LogEvent): string {
  if (event.body === null) return `The body has ${bytesText(event.size)}; choose the event to read it.`;
  const text = safeText(jsonText(event.body));
  return text.length > MAX_JSON ? `${text.slice(0, MAX_JSON)}\n…` : text;
}

/** What a screen reader hears of a position on the slider. */
export function eventText(event: LogEvent | null | undefined, seq: number, last: number): string {
  if (!event) return `Event ${seq} of ${last}`;
  const summary = safeLine(event.summary.slice(0, 120));
  return `Event ${seq} of ${last}, ${kindLabel(event.kind)}${summary ? `, ${summary}` : ""}`;
}
