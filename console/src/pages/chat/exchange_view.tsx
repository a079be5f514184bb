// One exchange on the page: the user's messages, the agent's progress folded, its artifacts, its question, and how it ended.
// What failed is said at once, with the reason and the way to the timeline of the task.

import { useMemo } from "preact/hooks";
import { has } from "../../api/session.ts";
import { hasData, type JsonObject, type JsonValue, type Part } from "../../a2a/types.ts";
import { Markdown } from "../../content/markdown.tsx";
import { Parts } from "../../content/parts.tsx";
import { Question } from "../../content/question.tsx";
import { partsForPeople } from "../../content/questions.ts";
import { formIn, isObject } from "../../content/schema_fields.ts";
import { Traceback } from "../../content/traceback.tsx";
import { links } from "../../router.ts";
import { plural, safeLine, safeText, shortLine } from "../../text/safe.ts";
import { Button, CopyButton, Facts, Icon, Name, Progress, StateBadge, stateWord, Time } from "../../ui/index.ts";
import { ArtifactGroup } from "./artifact_group.tsx";
import type { ArtifactRecord, Entry, Exchange, Note } from "./exchange.ts";
import { failureIn, type Step } from "./narration.ts";

/** Entries of one exchange on the page. Of more, the last ones are shown. */
export const MAX_GROUPS = 500;

export interface ExchangeActions {
  answer: (exchange: Exchange, parts: Part[], metadata?: JsonObject) => void;
  cancel: (exchange: Exchange) => void;
  retry: (exchange: Exchange) => void;
  follow: (exchange: Exchange) => void;
}

export interface ExchangeProps {
  exchange: Exchange;
  agent: { id: string; name: string };
  isLast: boolean;
  actions: ExchangeActions;
}

export function ExchangeView({ exchange, agent, isLast, actions }: ExchangeProps) {
  // Read for its changes: everything in the exchange changes in place.
  void exchange.version.value;
  const label = exchange.message ? shortLine(textOf(exchange.message.parts), 60) : "Task";
  const groups = grouped(exchange.entries);
  const first = Math.max(0, groups.length - MAX_GROUPS);
  const hidden = first + exchange.dropped;
  return (
    <article class="exchange" aria-label={label || "Message"}>
      {hidden > 0 && <p class="chat-connection">{plural(hidden, "earlier entry is", "earlier entries are")} not shown.</p>}
      {groups.slice(first).map((group, index) => (
        <Group key={hidden + index} group={group} exchange={exchange} agent={agent.id} />
      ))}
      <Now exchange={exchange} agent={agent} isLast={isLast} actions={actions} />
      <Foot exchange={exchange} agent={agent} actions={actions} />
    </article>
  );
}

type Shown = Exclude<Entry, { kind: "artifact" }> | { kind: "artifacts"; artifacts: ArtifactRecord[] };

/** Artifacts that follow each other are one group. */
function grouped(entries: readonly Entry[]): Shown[] {
  const groups: Shown[] = [];
  for (const entry of entries) {
    const last = groups.at(-1);
    if (entry.kind !== "artifact") groups.push(entry);
    else if (last?.kind === "artifacts") last.artifacts.push(entry.artifact);
    else groups.push({ kind: "artifacts", artifacts: [entry.artifact] });
  }
  return groups;
}

function Group({ group, exchange, agent }: { group: Shown; exchange: Exchange; agent: string }) {
  switch (group.kind) {
    case "user":
      return (
        <div class="said-user">
          <span class="visually-hidden">You: </span>
          <UserParts parts={group.message.parts ?? []} agent={agent} />
        </div>
      );
    case "said":
      return <div class="said-agent"><Parts parts={withoutForm(partsForPeople(group.message))} agent={agent} /></div>;
    case "notes":
      return <Notes notes={group.notes} dropped={group.dropped} agent={agent} />;
    case "steps":
      return <Steps steps={group.steps} dropped={group.dropped} />;
    case "artifacts":
      return <ArtifactGroup artifacts={group.artifacts} agent={agent} isRunning={!exchange.isOver} />;
    case "connection":
      return <p class="chat-connection"><Icon name="refresh" /> {group.text}</p>;
  }
}

/** The parts of a question without the schema of its form, which was shown as a form and answered. */
function withoutForm(parts: readonly Part[]): readonly Part[] {
  const schema = formIn(parts);
  return schema ? parts.filter((part) => part.data !== schema) : parts;
}

const MAX_FACTS = 30;

/** A message of the user. The answer to a form is names and values rather than a tree. */
function UserParts({ parts, agent }: { parts: readonly Part[]; agent: string }) {
  const [only] = parts;
  const facts = parts.length === 1 && isObject(only?.data) ? Object.entries(only.data) : [];
  const isFlat = facts.length > 0 && facts.length <= MAX_FACTS && facts.every(([, value]) => !isObject(value));
  if (!isFlat) return <Parts parts={parts} agent={agent} isPlain />;
  return <Facts facts={facts.map(([name, value]) => [shortLine(name, 60), <bdi key={name}>{safeText(factText(value))}</bdi>])} />;
}

function factText(value: JsonValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function textOf(parts: readonly Part[] | undefined): string {
  return (parts ?? []).map((part) => part.text ?? "").join(" ").trim();
}

// --- progress --------------------------------------------------------------------------------------------------------

/** The text of a note on one line; data as JSON. */
function noteText(parts: readonly Part[]): string {
  const words = parts.map((part) => part.text ?? (hasData(part) ? JSON.stringify(part.data) : part.filename ?? part.url ?? ""));
  return words.join(" ");
}

function Notes({ notes, dropped, agent }: { notes: readonly Note[]; dropped: number; agent: string }) {
  const last = notes.at(-1)!;
  const count = notes.length + dropped;
  const isShort = count === 1 && last.parts.every((part) => part.text !== undefined && part.text.length < 200);
  if (isShort) return <p class="chat-note">{safeText(noteText(last.parts))}</p>;
  return (
    <details class="chat-notes">
      <summary><span class="cut">{shortLine(noteText(last.parts), 160)}</span> <span class="dim">{plural(count, "note")}</span></summary>
      <ol class="plain">
        {dropped > 0 && <li class="dim">{plural(dropped, "older note")} not kept. The timeline has them.</li>}
        {notes.map((note, index) => (
          <li key={dropped + index}>
            {note.at && <Time at={note.at} as="clock" />} {note.parts.every((part) => part.text !== undefined)
              ? safeText(noteText(note.parts).slice(0, 5_000)) : <Parts parts={note.parts} agent={agent} />}
          </li>
        ))}
      </ol>
    </details>
  );
}

/** What an orchestrator had other agents and tools do, folded. */
function Steps({ steps, dropped }: { steps: readonly Step[]; dropped: number }) {
  const names = [...new Set(steps.map((step) => shortLine(step.name, 40)))];
  return (
    <details class="chat-notes">
      <summary>
        <span class="cut">{plural(steps.length + dropped, "step")}: {names.slice(0, 4).join(", ")}{names.length > 4 ? " …" : ""}</span>
        {steps.some((step) => step.hasFailed) && <span class="bad"> with failures</span>}
      </summary>
      <ol class="plain">
        {steps.map((step) => (
          <li key={step.id} class="chat-step">
            <p>
              <Icon name={step.kind === "agent" ? "agents" : "operate"} />
              <strong><Name text={step.name} /></strong>
              {step.hasFailed && <span class="bad">failed</span>}
              {step.task && <a href={links.task(step.name, step.task)}>Task</a>}
            </p>
            {step.text && <Markdown text={step.text.slice(0, 100_000)} />}
          </li>
        ))}
      </ol>
    </details>
  );
}

// --- the present -----------------------------------------------------------------------------------------------------

function Now({ exchange, agent, isLast, actions }: ExchangeProps) {
  const artifacts = useMemo(
    () => exchange.artifactRecords.slice(-1).map((each) => ({ artifactId: each.id, name: each.name, parts: [...each.parts] })),
    [exchange.status],
  );
  switch (exchange.phase) {
    case "sending":
      return <Progress text="Sending the message…" small />;
    case "running":
      return exchange.artifactRecords.some((each) => each.isOpen) ? null : <Progress text="The agent is working…" small />;
    case "waiting":
      return (
        <>
          {exchange.error && <p class="field-error" role="alert">The answer was not taken: {safeText(exchange.error)}</p>}
          <Question
            status={exchange.status!} artifacts={artifacts} agent={agent.id} {...(isLast && { elsewhere: "Answer below." })}
            onAnswer={(...answer) => actions.answer(exchange, ...answer)}
          />
        </>
      );
    case "unsent":
      return <Failure title="The message was not answered" reason={exchange.error} action="Send it again" onAction={() => actions.retry(exchange)} />;
    case "cut":
      if (!exchange.error) return <Progress text="Waiting for the connection…" small />;
      return <Failure title="The reply cannot be followed" reason={exchange.error} action="Follow again" onAction={() => actions.follow(exchange)} />;
    case "ended":
      return exchange.hasFailed ? <Ended exchange={exchange} agent={agent} actions={actions} /> : null;
  }
}

/** How a task ended that was not completed, and why. */
function Ended({ exchange, agent, actions }: Omit<ExchangeProps, "isLast">) {
  const parts = exchange.status?.message?.parts ?? [];
  const reason = textOf(parts) || failureIn(exchange.metadata);
  const others = parts.filter((part) => part.text === undefined);
  const isCanceled = exchange.state === "TASK_STATE_CANCELED";
  return (
    <div class={isCanceled ? "failure failure-mild" : "failure"} role="group" aria-label={stateWord(exchange.state)}>
      <p class="failure-title"><Icon name={isCanceled ? "stop" : "warning"} /> {stateWord(exchange.state)}</p>
      {reason ? <div class="failure-reason"><Markdown text={reason} /></div> : !isCanceled && <p class="dim">The agent gave no reason.</p>}
      {others.length > 0 && <Parts parts={others} agent={agent.id} />}
      {!isCanceled && has("tasks") && exchange.taskId && <Traceback agent={agent.id} task={exchange.taskId} reason={reason} />}
      <div class="row">
        {exchange.message && <Button small icon="refresh" onClick={() => actions.retry(exchange)}>Try again</Button>}
        {exchange.taskId && <a href={links.task(agent.id, exchange.taskId)}>What happened, event by event</a>}
      </div>
    </div>
  );
}

interface FailureProps {
  title: string;
  reason: string;
  action: string;
  onAction: () => void;
}

function Failure({ title, reason, action, onAction }: FailureProps) {
  return (
    <div class="failure" role="alert">
      <p class="failure-title"><Icon name="warning" /> {title}</p>
      <p class="failure-reason">{safeText(reason)}</p>
      <div class="row"><Button small icon="refresh" onClick={onAction}>{action}</Button></div>
    </div>
  );
}

function Foot({ exchange, agent, actions }: Omit<ExchangeProps, "isLast">) {
  if (!exchange.taskId && exchange.phase !== "ended") return null;
  const isRunning = exchange.phase === "running" || exchange.phase === "waiting" || exchange.phase === "cut";
  return (
    <footer class="exchange-foot">
      {exchange.taskId && <StateBadge state={exchange.state} />}
      {exchange.taskId && <a href={links.task(agent.id, exchange.taskId)}>Task</a>}
      {exchange.status?.timestamp && <Time at={exchange.status.timestamp} />}
      {exchange.cursor !== null && <span title="The number of the last event of the task">event {exchange.cursor}</span>}
      <span class="grow" />
      {isRunning && exchange.taskId && <Button kind="quiet" small icon="stop" onClick={() => actions.cancel(exchange)}>Cancel</Button>}
      {exchange.phase === "ended" && <CopyButton iconOnly label="Copy the reply" text={() => replyOf(exchange)} />}
      {exchange.phase === "ended" && exchange.message && !exchange.hasFailed && (
        <Button kind="quiet" small icon="refresh" onClick={() => actions.retry(exchange)}>Again</Button>
      )}
    </footer>
  );
}

/** All text of the agent in an exchange. */
function replyOf(exchange: Exchange): string {
  const texts = exchange.entries.map((entry) => {
    if (entry.kind === "artifact") return entry.artifact.text;
    return entry.kind === "said" ? textOf(entry.message.parts) : "";
  });
  return texts.filter(Boolean).join("\n\n") || safeLine(textOf(exchange.status?.message?.parts));
}
