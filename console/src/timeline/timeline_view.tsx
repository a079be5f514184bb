// The timeline of a task: a slider over its events, the list with filters, and beside it the chosen event or the task
// as it was after it. One cursor is all three: where the slider is, which event is chosen, what the task is shown at.

import { type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Task } from "../a2a/types.ts";
import { useShortcuts } from "../shortcuts.ts";
import { bytesText, countText, plural } from "../text/safe.ts";
import { Button, Problem, Progress, Split } from "../ui/index.ts";
import { Choice } from "./choice.tsx";
import { EventDetail } from "./event_detail.tsx";
import { EventList, type EventView } from "./event_list.tsx";
import { kindLabel } from "./events.ts";
import { type EventFilter, type EventLog, missedBy } from "./log.ts";
import { Scrubber } from "./scrubber.tsx";
import type { TaskTimeline } from "./task_timeline.ts";

export interface TimelineViewProps {
  timeline: TaskTimeline;
  cursor: number | null;
  onMove: (seq: number | null) => void;
  isLive: boolean;
  /** Shows a task as it was. */
  show: (task: Task) => ComponentChildren;
}

type Beside = "task" | "event";

export function TimelineView({ timeline, cursor, onMove, isLive, show }: TimelineViewProps) {
  const version = timeline.version.value;
  const { log } = timeline;
  const [view, setView] = useState<EventView>("compact");
  const [filter, setFilter] = useState<EventFilter>({ hidden: new Set(), missedAfter: null });
  const [beside, setBeside] = useState<Beside>("task");
  const now = cursor ?? log.last;
  const settled = useSettled(now);
  useTimelineKeys(log, now, onMove);
  if (log.length === 0) return <Progress text="Loading events…" />;
  return (
    <div class="timeline">
      <Scrubber log={log} version={version} cursor={cursor} isLive={isLive} onMove={onMove} />
      {timeline.loader.error !== null && (
        <Problem title="Some events could not be loaded" error={timeline.loader.error} retry={() => void timeline.loader.run()} />
      )}
      <Split
        name="timeline" label="Width of the list of events" initial={0.55}
        first={
          <>
            <TimelineBar log={log} version={version} filter={filter} onFilter={setFilter} view={view} onView={setView} now={now} />
            {filter.missedAfter !== null && <Missed log={log} version={version} after={filter.missedAfter} onEnd={() => setFilter({ ...filter, missedAfter: null })} />}
            <EventList
              log={log} version={version} filter={filter} view={view} cursor={cursor} isLive={isLive}
              onChoose={onMove} want={(from, to) => timeline.loader.want(from, to)}
            />
          </>
        }
        second={
          <div class="timeline-beside">
            <div class="timeline-beside-bar">
              <Choice<Beside>
                label="Beside the list" value={beside} onChange={setBeside}
                options={[{ value: "task", title: `Task after ${countText(now)}` }, { value: "event", title: `Event ${countText(now)}` }]}
              />
            </div>
            <StayAtEnd label={beside === "task" ? `Task after event ${now}` : `Event ${now}`}>
              {beside === "event" ? <EventDetail timeline={timeline} seq={now} /> : <TaskThen timeline={timeline} seq={settled} version={version} show={show} />}
            </StayAtEnd>
          </div>
        }
      />
    </div>
  );
}

/** A number once the page has shown it elsewhere: a long text must not slow the slider down. */
function useSettled(value: number): number {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const frame = requestAnimationFrame(() => (timer = setTimeout(() => setSettled(value))));
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [value]);
  return settled;
}

/** A pane that scrolls, and stays at its end while its content grows, once the user has scrolled there. */
function StayAtEnd({ label, children }: { label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(false);
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current!.scrollTop = box.current!.scrollHeight;
  });
  const onScroll = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    isAtEnd.current = scrollTop > 0 && scrollTop + clientHeight >= scrollHeight - 4;
  };
  return <div ref={box} class="timeline-beside-body" tabIndex={0} role="region" aria-label={label} onScroll={onScroll}>{children}</div>;
}

/** The task after an event. While the server is asked, the last one that was known stays. */
export function TaskThen({ timeline, seq, version, show }: { timeline: TaskTimeline; seq: number; version: number; show: (task: Task) => ComponentChildren }) {
  const task = useMemo(() => timeline.taskAt(seq), [timeline, seq, version]);
  const last = useRef<Task | null>(null);
  if (task !== null) last.current = task;
  useEffect(() => {
    if (task === null) timeline.ask(seq);
  }, [timeline, seq, task === null]);
  const error = task === null ? timeline.scrubError.value : null;
  return (
    <>
      {error !== null && <Problem error={error} retry={() => timeline.ask(seq)} />}
      {task === null && error === null && <Progress small text={`Reading the task after event ${seq}…`} />}
      {last.current !== null && <div class={task === null ? "is-stale" : undefined}>{show(last.current)}</div>}
    </>
  );
}

interface TimelineBarProps {
  log: EventLog;
  version: number;
  filter: EventFilter;
  onFilter: (filter: EventFilter) => void;
  view: EventView;
  onView: (view: EventView) => void;
  now: number;
}

function TimelineBar({ log, filter, onFilter, view, onView, now }: TimelineBarProps) {
  const kinds = [...log.kinds].sort(([, left], [, right]) => right - left);
  const toggle = (kind: string) => {
    const hidden = new Set(filter.hidden);
    if (!hidden.delete(kind)) hidden.add(kind);
    onFilter({ ...filter, hidden });
  };
  return (
    <div class="timeline-bar">
      <div class="timeline-kinds" role="group" aria-label="Kinds of events">
        {kinds.map(([kind, count]) => (
          <button key={kind} type="button" class="kind-chip" aria-pressed={!filter.hidden.has(kind)} onClick={() => toggle(kind)}>
            {kindLabel(kind)} <span class="dim">{countText(count)}</span>
          </button>
        ))}
      </div>
      <div class="row">
        {!log.isComplete && <span class="dim small">{countText(log.loaded)} of {countText(log.length)} loaded</span>}
        {filter.missedAfter === null && now < log.last && (
          <Button small kind="quiet" title="What callers see after this event" onClick={() => onFilter({ ...filter, missedAfter: now })}>Missed after {countText(now)}?</Button>
        )}
        <Choice<EventView>
          label="View of events" value={view} onChange={onView}
          options={[{ value: "compact", title: "Compact" }, { value: "full", title: "Full" }, { value: "json", title: "JSON" }]}
        />
      </div>
    </div>
  );
}

function Missed({ log, version, after, onEnd }: { log: EventLog; version: number; after: number; onEnd: () => void }) {
  const missed = useMemo(() => missedBy(log, after), [log, version, after]);
  return (
    <p class="timeline-missed" role="status">
      <span>
        A client that stopped at event {countText(after)} missed {missed.events === 0 ? "nothing" : `these ${plural(missed.events, "event")}`}
        {missed.events > 0 && ` (${bytesText(missed.bytes)})`}. It gets them with <code>Last-Event-ID: {after}</code>.
      </span>
      <Button small onClick={onEnd}>Show all events</Button>
    </p>
  );
}

/** Keys that work wherever the focus is on the page: brackets step, braces jump to status changes, # types a number. */
function useTimelineKeys(log: EventLog, now: number, onMove: (seq: number) => void): void {
  const latest = useRef(now);
  latest.current = now;
  useShortcuts(() => {
    const step = (by: number) => onMove(Math.min(log.last, Math.max(log.oldest, latest.current + by)));
    const toStatus = (direction: 1 | -1) => {
      const found = log.select(({ kind, seq }) => kind === "status" && (seq - latest.current) * direction > 0);
      const seq = direction === 1 ? found[0] : found.at(-1);
      if (seq !== undefined) onMove(seq);
    };
    const group = "Timeline";
    return [
      { keys: "]", title: "Next event", group, run: () => step(1) },
      { keys: "[", title: "Event before", group, run: () => step(-1) },
      { keys: "}", title: "Next change of the status", group, run: () => toStatus(1) },
      { keys: "{", title: "Last change of the status", group, run: () => toStatus(-1) },
      { keys: "#", title: "Type the number of an event", group, run: () => document.querySelector<HTMLElement>("[data-jump]")?.focus() },
    ];
  }, [log]);
}
