// A task of an agent elsewhere: read with A2A itself, and followed while it runs. There is no log of it: the page shows
// the events that it has seen since it was opened.

import { useEffect, useRef, useState } from "preact/hooks";
import { getTask, subscribe } from "../../a2a/client.ts";
import { TaskFold, textOf } from "../../a2a/fold.ts";
import { isTerminal, type StreamResponse, type Task } from "../../a2a/types.ts";
import { api, path } from "../../api/http.ts";
import { has } from "../../api/session.ts";
import type { Agent, AgentDetails, LogEvent } from "../../api/types.ts";
import { links } from "../../router.ts";
import { plural } from "../../text/safe.ts";
import { EventRow } from "../../timeline/event_list.tsx";
import { Button, ButtonLink, CopyButton, Id, Name, Page, Problem, Progress, rowState, Section, StateBadge, useLoad, VirtualList } from "../../ui/index.ts";
import { askToCancel } from "./canceling.ts";
import { TaskContent } from "./task_content.tsx";

/** The agent, if it is one whose tasks are elsewhere; looked up only if it is wanted. */
export function useRemoteAgent(id: string, isWanted: boolean): { value: Agent | null; isLoading: boolean } {
  const { value, error, isLoading } = useLoad(
    async (signal) => (isWanted ? (await api.get<AgentDetails>(path("agents", id), { signal })).agent : null), [id, isWanted],
  );
  return { value: value && (value.kind !== "own" || !has("tasks")) ? value : null, isLoading: isWanted && error === null && (isLoading || value === null) };
}

interface Seen {
  task: Task | null;
  events: LogEvent[];
  error: unknown;
}

const MAX_SEEN = 5_000;
/** The pause before a task is read again whose events have ended, or that could not be read. */
const AGAIN_MS = 5_000;

export function RemoteTask({ agent, id }: { agent: Agent; id: string }) {
  const { task, events, error, reload } = useRemoteTask(agent.url, id);
  const title = textOf(task?.history?.[0]?.parts) || "Task";
  const isLive = task !== null && !isTerminal(task.status.state);
  const cancel = async () => {
    if (await askToCancel(agent.url, id)) reload();
  };
  return (
    <Page
      title={title} trail={[["Tasks", links.tasks({ agent: agent.id })]]} beside={task && <StateBadge state={rowState(task.status.state)} />}
      actions={
        <>
          {task?.contextId && <ButtonLink small icon="chat" href={links.chat(agent.id, task.contextId)}>Chat</ButtonLink>}
          <Button small icon="refresh" onClick={reload}>Read again</Button>
          {isLive && <Button small icon="stop" onClick={cancel}>Cancel</Button>}
        </>
      }
    >
      <div class="task-facts">
        <span>Agent <a href={links.agent(agent.id)}><Name text={agent.name} length={40} /></a></span>
        <span>Task <Id text={id} /><CopyButton iconOnly label="Copy the id of the task" text={id} /></span>
      </div>
      <p class="dim page-gap">The agent is elsewhere, so this page has no log of the task. It shows what the agent says now, and the events seen since it was opened.</p>
      {error !== null && <Problem error={error} retry={reload} title="The agent does not show the task" />}
      {task === null && error === null && <Progress text="Asking the agent for the task…" />}
      {task !== null && <TaskContent task={task} agent={agent.id} />}
      {events.length > 0 && (
        <Section title={`${plural(events.length, "event")} seen`}>
          <div class="task-seen">
            <VirtualList
              label="Events seen" items={events} itemKey={(event) => event.seq} estimate={28} follow class="events events-compact"
              render={(event) => <EventRow event={event} view="compact" />}
            />
          </div>
        </Section>
      )}
    </Page>
  );
}

function useRemoteTask(url: string, id: string): Seen & { reload: () => void } {
  const [seen, setSeen] = useState<Seen>({ task: null, events: [], error: null });
  const [round, setRound] = useState(0);
  const count = useRef(0);
  const reload = () => setRound((before) => before + 1);
  useEffect(() => {
    const abort = new AbortController();
    let close = () => {};
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = () => (timer = setTimeout(reload, AGAIN_MS));
    getTask(url, id, { signal: abort.signal }).then(
      (task) => {
        if (abort.signal.aborted) return;
        setSeen((before) => ({ ...before, task, error: null }));
        if (!isTerminal(task.status.state)) close = follow(url, task, count, setSeen, again);
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setSeen((before) => ({ ...before, error }));
        if (seen.task) again();
      },
    );
    return () => {
      abort.abort();
      close();
      clearTimeout(timer);
    };
  }, [url, id, round]);
  return { ...seen, reload };
}

/** Follow a task; the page changes once per frame. `again` is called if there are no more events, and the task goes on. */
function follow(
  url: string, task: Task, count: { current: number }, setSeen: (change: (before: Seen) => Seen) => void, again: () => void,
): () => void {
  const fold = new TaskFold(task);
  let waiting: LogEvent[] = [];
  let lastAt = 0;
  let frame = 0;
  const end = () => isTerminal(fold.task()!.status.state) || again();
  const channel = subscribe(url, task.id, {
    onEvent: (event, number) => {
      fold.apply(event, number);
      const now = Date.now();
      // The first event is often the task as it was just read, which is nothing new.
      if (lastAt || !event.task) waiting.push(seenEvent(event, ++count.current, now, lastAt ? now - lastAt : null));
      lastAt = now;
      frame ||= requestAnimationFrame(() => {
        const added = waiting;
        waiting = [];
        frame = 0;
        setSeen((before) => ({ ...before, task: fold.task(), events: [...before.events, ...added].slice(-MAX_SEEN) }));
      });
    },
    onEnd: end,
    onError: end,
  });
  return () => {
    channel.close();
    cancelAnimationFrame(frame);
  };
}

/** An event of a stream as a row of a timeline. The row keeps neither the event nor its text, which may be large. */
export function seenEvent(event: StreamResponse, seq: number, now: number, pause: number | null): LogEvent {
  const [kind, summary] =
    event.artifactUpdate ? ["artifact", textOf(event.artifactUpdate.artifact?.parts)]
    : event.statusUpdate ? ["status", `${rowState(event.statusUpdate.status.state)} ${textOf(event.statusUpdate.status.message?.parts)}`]
    : event.message ? ["message-added", textOf(event.message.parts)]
    : ["task", "the task as it stands"];
  const at = new Date(now).toISOString();
  // A slice alone would hold the whole text.
  const copy = summary.slice(0, 500).split("").join("");
  return { seq, kind, at, size: JSON.stringify(event).length, pause_ms: pause, summary: copy, is_streamed: true, body: null };
}
