// Two tasks beside each other: what they are, how their texts differ, and their events in rows. Both ids are in the URL.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Task } from "../../a2a/types.ts";
import { api, path } from "../../api/http.ts";
import type { LogEvent, TaskDetails, TaskLog, TaskRow } from "../../api/types.ts";
import { links, navigate, query } from "../../router.ts";
import "../../styles/tasks.css";
import { countText, durationText, plural, safeText, shortLine } from "../../text/safe.ts";
import { kindLabel } from "../../timeline/events.ts";
import { PAGE_EVENTS } from "../../timeline/log.ts";
import { Badge, Button, Checkbox, Page, Problem, Progress, Section, StateBadge, TextInput, Time, useLoad, VirtualList } from "../../ui/index.ts";
import { align, type AlignedRow, diffTexts, entriesOf, type Entry, folded, textsOf, type TextPiece } from "./align.ts";

/** Events of each task that are compared. */
const MAX_EVENTS = 20_000;
const MAX_TEXT = 400_000;
const MAX_INLINE = 4_000;

interface Side {
  row: TaskRow;
  task: Task;
  events: LogEvent[];
  isCut: boolean;
}

export default function ComparePage() {
  const a = query.value.get("a") ?? "";
  const b = query.value.get("b") ?? "";
  const isChosen = a !== "" && b !== "";
  return (
    <Page
      title="Compare tasks" trail={[["Tasks", links.tasks()]]}
      actions={isChosen && <Button small onClick={() => navigate(links.compare(b, a), { replace: true })}>Swap</Button>}
    >
      <ChooseBoth key={`${a} ${b}`} a={a} b={b} isOpen={!isChosen} />
      {isChosen && <Comparison key={`${a}\n${b}`} a={a} b={b} />}
    </Page>
  );
}

function ChooseBoth({ a, b, isOpen }: { a: string; b: string; isOpen: boolean }) {
  const [left, setLeft] = useState(a);
  const [right, setRight] = useState(b);
  const isReady = left.includes("/") && right.includes("/");
  return (
    <details class="compare-choose" open={isOpen}>
      <summary>Tasks to compare</summary>
      <form
        class="compare-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) navigate(links.compare(left.trim(), right.trim()));
        }}
      >
        <TextInput label="First task" isCode value={left} onInput={setLeft} placeholder="agent/id" hint="The id of the agent, a slash, and the id of the task." />
        <TextInput label="Second task" isCode value={right} onInput={setRight} placeholder="agent/id" hint="The button “Compare with…” on a task’s page fills both in." />
        <Button type="submit" kind="primary" disabled={!isReady}>Compare</Button>
      </form>
    </details>
  );
}

function Comparison({ a, b }: { a: string; b: string }) {
  const left = useSide(a);
  const right = useSide(b);
  const error = left.error ?? right.error;
  if (error !== null) return <Problem error={error} title={`The ${left.error ? "first" : "second"} task cannot be read`} retry={left.error ? left.reload : right.reload} />;
  if (!left.value || !right.value) return <Progress text={`Reading both tasks: ${countText(left.count + right.count)} events so far…`} />;
  return (
    <>
      <div class="compare-heads"><SideHead side={left.value} name="First" /><SideHead side={right.value} name="Second" /></div>
      {(left.value.isCut || right.value.isCut) && <p class="dim">Only the first {countText(MAX_EVENTS)} events of each task are compared.</p>}
      <Texts left={left.value} right={right.value} />
      <Events left={left.value} right={right.value} />
    </>
  );
}

function useSide(name: string) {
  const [count, setCount] = useState(0);
  const { value, error, reload } = useLoad((signal) => readSide(name, setCount, signal), [name]);
  return { value, error, reload, count };
}

async function readSide(name: string, progress: (count: number) => void, signal: AbortSignal): Promise<Side> {
  const slash = name.lastIndexOf("/");
  const [agent, id] = [name.slice(0, slash), name.slice(slash + 1)];
  const details = await api.get<TaskDetails>(path("tasks", id), { query: { agent }, signal });
  const events: LogEvent[] = [];
  for (let last = 1, after = 0; after < last && events.length < MAX_EVENTS; after = events.at(-1)?.seq ?? last) {
    const page = await api.get<TaskLog>(path("tasks", id, "log"), { query: { agent, after, limit: PAGE_EVENTS }, signal });
    if (page.events.length === 0) break;
    events.push(...page.events);
    last = page.last;
    progress(events.length);
  }
  return { row: details.task, task: details.snapshot, events, isCut: events.length >= MAX_EVENTS && events.length < details.task.events };
}

function SideHead({ side, name }: { side: Side; name: string }) {
  const { row, events } = side;
  const [first, last] = [events[0]?.at, events.at(-1)?.at];
  const took = first && last ? durationText(Date.parse(last) - Date.parse(first)) : null;
  return (
    <article class="card compare-head">
      <h2><span class="visually-hidden">{name}: </span><a href={links.task(row.agent, row.id)}><bdi>{shortLine(row.title, 80) || row.id}</bdi></a></h2>
      <p class="row"><StateBadge state={row.state} /><span class="dim">{shortLine(row.agent_name, 40)}</span><Time at={row.updated_at} as="full" /></p>
      <p class="dim">{plural(row.events, "event")}{took !== null && `, ${took} from first to last`}, A2A {row.created_in}</p>
    </article>
  );
}

function Texts({ left, right }: { left: Side; right: Side }) {
  const compared = useMemo(() => {
    const [a, b] = [textsOf(left.task), textsOf(right.task)];
    return [...new Set([...a.keys(), ...b.keys()])].map((name) => ({ name, left: a.get(name), right: b.get(name) }));
  }, [left, right]);
  if (compared.length === 0) return <Section title="Texts"><p class="dim">Neither task has a text.</p></Section>;
  return <Section title="Texts">{compared.map((each) => <TextPair key={each.name} {...each} />)}</Section>;
}

function TextPair({ name, left, right }: { name: string; left: string | undefined; right: string | undefined }) {
  const isSame = left === right;
  const isLong = (left?.length ?? 0) + (right?.length ?? 0) > MAX_TEXT;
  const pieces = useMemo(() => (isSame || isLong ? [] : diffTexts(left ?? "", right ?? "")), [left, right]);
  const verdict = isSame ? "Same" : left === undefined ? "Only the second has it" : right === undefined ? "Only the first has it" : "Different";
  return (
    <article class="compare-text">
      <header class="task-part-head"><h3><bdi>{shortLine(name, 80)}</bdi></h3><Badge tone={isSame ? "good" : "waiting"}>{verdict}</Badge></header>
      {isLong && <p class="dim">The texts are too long to compare by words: {countText(left?.length ?? 0)} and {countText(right?.length ?? 0)} characters.</p>}
      {pieces.length > 0 && <p class="compare-pieces" tabIndex={0} role="region" aria-label={`Differences of ${shortLine(name, 80)}`}><Pieces pieces={pieces} side={null} /></p>}
    </article>
  );
}

/** Pieces of two texts: of both, or of one side only. Screen readers hear what is deleted and inserted. */
function Pieces({ pieces, side }: { pieces: readonly TextPiece[]; side: "left" | "right" | null }) {
  return (
    <>
      {pieces.map((piece, index) => {
        const text = safeText(piece.text);
        if (piece.how === "same") return <span key={index}>{side === null ? shortened(text) : text}</span>;
        if (side !== null && piece.how !== side) return null;
        return piece.how === "left" ? <del key={index}>{text}</del> : <ins key={index}>{text}</ins>;
      })}
    </>
  );
}

/** Long stretches that are the same are cut in the middle. */
function shortened(text: string): string {
  return text.length <= 1_000 ? text : `${text.slice(0, 400)}\n⋯ ${countText(text.length - 800)} characters are the same ⋯\n${text.slice(-400)}`;
}

function Events({ left, right }: { left: Side; right: Side }) {
  const [joinChunks, setJoinChunks] = useState(true);
  const [onlyChanges, setOnlyChanges] = useState(true);
  const [rows, setRows] = useState<AlignedRow[] | null>(null);
  useEffect(() => {
    setRows(null);
    const timer = setTimeout(() => setRows(align(entriesOf(left.events, joinChunks), entriesOf(right.events, joinChunks))));
    return () => clearTimeout(timer);
  }, [left, right, joinChunks]);
  const shown = useMemo(() => (rows === null ? [] : onlyChanges ? folded(rows) : rows), [rows, onlyChanges]);
  const changed = rows?.filter((row) => row.how !== "same").length ?? 0;
  return (
    <Section
      title="Events"
      actions={
        <div class="row">
          <Checkbox label="Join chunks" checked={joinChunks} onChange={setJoinChunks} />
          <Checkbox label="Only differences" checked={onlyChanges} onChange={setOnlyChanges} />
        </div>
      }
    >
      <p class="dim" role="status">{rows === null ? "Comparing…" : changed === 0 ? "All events say the same." : `${plural(changed, "row")} of ${countText(rows.length)} ${changed === 1 ? "differs" : "differ"}.`}</p>
      <div class="compare-events" style={{ height: `min(70vh, ${Math.max(2, shown.length) * 42}px)` }}>
        <VirtualList
          label="Events of both tasks" items={shown} estimate={32}
          itemKey={(row, index) => ("hidden" in row ? `hidden ${row.at}` : `${row.left?.first ?? ""} ${row.right?.first ?? ""} ${index}`)}
          render={(row) => ("hidden" in row ? <p class="compare-hidden">{plural(row.hidden, "row")} alike</p> : <EventPair row={row} left={left.row} right={right.row} />)}
        />
      </div>
    </Section>
  );
}

const HOW: Record<AlignedRow["how"], string> = { same: "=", changed: "≠", left: "−", right: "+" };
const HOW_TEXT: Record<AlignedRow["how"], string> = { same: "same", changed: "different", left: "only in the first", right: "only in the second" };

function EventPair({ row, left, right }: { row: AlignedRow; left: TaskRow; right: TaskRow }) {
  const pieces = useMemo(() => {
    if (row.how !== "changed" || row.left!.text.length + row.right!.text.length > MAX_INLINE) return null;
    return diffTexts(row.left!.text, row.right!.text);
  }, [row]);
  return (
    <div class={`compare-row compare-${row.how}`}>
      <EntryCell entry={row.left} of={left} pieces={pieces} side="left" />
      <span class="compare-how" title={HOW_TEXT[row.how]}><span aria-hidden="true">{HOW[row.how]}</span><span class="visually-hidden">{HOW_TEXT[row.how]}</span></span>
      <EntryCell entry={row.right} of={right} pieces={pieces} side="right" />
    </div>
  );
}

function EntryCell({ entry, of, pieces, side }: { entry: Entry | null; of: TaskRow; pieces: TextPiece[] | null; side: "left" | "right" }) {
  if (entry === null) return <span class="compare-cell compare-none" />;
  const numbers = entry.first === entry.last ? countText(entry.first) : `${countText(entry.first)}–${countText(entry.last)}`;
  return (
    <span class="compare-cell">
      <a href={links.task(of.agent, of.id, { view: "timeline", at: entry.last })} aria-label={`Event ${numbers} of the ${side === "left" ? "first" : "second"} task`}>{numbers}</a>{" "}
      <span class="event-kind">{kindLabel(entry.kind)}</span>{" "}
      <bdi class="compare-said">{pieces !== null ? <Pieces pieces={pieces} side={side} /> : shortLine(entry.text, 300)}</bdi>
    </span>
  );
}
