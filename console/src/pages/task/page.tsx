// A task: why it failed if it did, what it produced, its timeline, its tree of runs, its webhooks and its request.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { textOf } from "../../a2a/fold.ts";
import type { Task } from "../../a2a/types.ts";
import { api, path } from "../../api/http.ts";
import { has } from "../../api/session.ts";
import type { TaskDetails, TaskRequest, TaskRow } from "../../api/types.ts";
import { useCommands } from "../../commands.ts";
import { links, navigate, query, setQuery } from "../../router.ts";
import "../../styles/tasks.css";
import "../../styles/timeline.css";
import "../../styles/tree.css";
import { Traceback } from "../../content/traceback.tsx";
import { bytesText, countText, safeText } from "../../text/safe.ts";
import { RequestForms } from "../../timeline/forms.tsx";
import { TaskTimeline } from "../../timeline/task_timeline.ts";
import { TaskThen, TimelineView } from "../../timeline/timeline_view.tsx";
import { TreeView } from "../../tree/tree_view.tsx";
import { Button, ButtonLink, CopyButton, Icon, Id, LoadState, Name, Page, Problem, Progress, StateBadge, Tabs, Time, useLoad } from "../../ui/index.ts";
import type { PageProps } from "../registry.ts";
import { tenantOf } from "../tasks/rows.ts";
import { askToCancel } from "./canceling.ts";
import { CompareWith } from "./compare_with.tsx";
import { RemoteTask, useRemoteAgent } from "./remote_task.tsx";
import { TaskContent } from "./task_content.tsx";
import { Webhooks } from "./webhooks.tsx";

const ENDED = new Set(["completed", "failed", "canceled", "rejected"]);
const URL_PAUSE_MS = 300;
const MAX_REASON = 4_000;

/** Stands for the agent in links to tasks of which only the id is known. */
const ANY_AGENT = "-";

export default function TaskPage({ params }: PageProps) {
  const agent = params["agent"] ?? "";
  const id = params["id"] ?? "";
  if (agent === ANY_AGENT) return <FindTask id={id} />;
  return <TaskById key={`${agent}\n${id}`} agent={agent} id={id} />;
}

/** Finds the agent of a task, and goes to its page. */
function FindTask({ id }: { id: string }) {
  const { error, reload } = useLoad(async (signal) => {
    const { task } = await api.get<TaskDetails>(path("tasks", id), { signal });
    if (!signal.aborted) navigate(links.task(task.agent, id), { replace: true });
  }, [id]);
  return <NoTask error={error} retry={reload} />;
}

function NoTask({ error, retry }: { error: unknown; retry: () => void }) {
  return (
    <Page title="Task" trail={[["Tasks", links.tasks()]]}>
      {error !== null ? <Problem error={error} title="The task cannot be shown" retry={retry} /> : <Progress text="Loading the task…" />}
    </Page>
  );
}

function TaskById({ agent, id }: { agent: string; id: string }) {
  const timeline = useMemo(() => new TaskTimeline(agent, id), [agent, id]);
  useEffect(() => {
    void timeline.open(cursorInUrl());
    return () => timeline.close();
  }, [timeline]);
  const row = timeline.row.value;
  const error = timeline.error.value;
  const remote = useRemoteAgent(agent, row === null && error !== null);
  if (remote.value) return <RemoteTask agent={remote.value} id={id} />;
  if (row === null) return <NoTask error={remote.isLoading ? null : error} retry={() => void timeline.open()} />;
  return <OwnTask timeline={timeline} row={row} />;
}

function cursorInUrl(): number | null {
  const at = Number.parseInt(query.peek().get("at") ?? "", 10);
  return Number.isFinite(at) && at > 0 ? at : null;
}

/** The cursor. The URL follows it after a moment, and it follows links that change the URL. */
function useCursor(last: number): [number | null, (seq: number | null) => void] {
  const [cursor, setCursor] = useState(cursorInUrl);
  const inUrl = query.value.get("at");
  const written = useRef(inUrl);
  useEffect(() => {
    if (inUrl !== written.current) setCursor(cursorInUrl());
    written.current = inUrl;
  }, [inUrl]);
  useEffect(() => {
    const timer = setTimeout(() => {
      written.current = cursor === null ? null : String(cursor);
      setQuery({ at: written.current });
    }, URL_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [cursor]);
  return [cursor === null ? null : Math.min(cursor, Math.max(1, last)), setCursor];
}

function OwnTask({ timeline, row }: { timeline: TaskTimeline; row: TaskRow }) {
  const { agent, id } = timeline;
  const [cursor, setCursor] = useCursor(timeline.log.last);
  const view = query.value.get("view") ?? "task";
  const isLive = !ENDED.has(row.state);
  const version = timeline.version.value;
  const last = timeline.log.last;
  const show = (task: Task) => <TaskContent task={task} agent={agent} />;
  const tabs = [
    { id: "task", title: "Task" },
    { id: "timeline", title: "Timeline", badge: countText(last) },
    ...(has("trees") ? [{ id: "tree", title: "Runs" }] : []),
    { id: "webhooks", title: "Webhooks" },
    { id: "request", title: "Request" },
  ];
  return (
    <Page
      title={row.title || "Task"}
      trail={[["Tasks", links.tasks()]]}
      beside={<StateBadge state={row.state} />}
      actions={<TaskActions timeline={timeline} row={row} isLive={isLive} />}
      fill
    >
      <div class="task-page">
        <TaskFacts row={row} />
        {timeline.error.value !== null && <Problem error={timeline.error.value} title="The task is not followed any more" />}
        <Reason row={row} task={timeline.taskAt(last) ?? timeline.details.value?.snapshot ?? null} />
        <Tabs label="View of the task" tabs={tabs} selected={view} onSelect={(chosen) => setQuery({ view: chosen === "task" ? null : chosen }, { push: true })}>
          {view === "timeline" && (
            <TimelineView timeline={timeline} cursor={cursor} onMove={setCursor} isLive={isLive} show={show} />
          )}
          {view === "tree" && <TreeView agent={agent} id={id} />}
          {view === "webhooks" && <div class="task-scroll"><Webhooks agent={agent} id={id} events={row.events} /></div>}
          {view === "request" && <div class="task-scroll"><RequestOf agent={agent} id={id} /></div>}
          {view === "task" && (
            <div class="task-scroll" tabIndex={0} role="region" aria-label="The task">
              <TaskThen timeline={timeline} seq={last} version={version} show={show} />
            </div>
          )}
        </Tabs>
      </div>
    </Page>
  );
}

function TaskFacts({ row }: { row: TaskRow }) {
  return (
    <div class="task-facts">
      <span>Agent <a href={links.agent(row.agent)}><Name text={row.agent_name || row.agent} length={40} /></a></span>
      <span>Task <Id text={row.id} /><CopyButton iconOnly label="Copy the id of the task" text={row.id} /></span>
      {row.context && (
        <span>Context <a href={links.tasks({ context: row.context })}><Id text={row.context} /></a><CopyButton iconOnly label="Copy the id of the context" text={row.context} /></span>
      )}
      <span>Created <Time at={row.created_at} /></span>
      <span>Updated <Time at={row.updated_at} /></span>
      <span>{countText(row.events)} events, {bytesText(row.size)}</span>
      <span>A2A {row.created_in}</span>
      {row.tenant && <span>Tenant <Name text={tenantOf(row)} length={24} /></span>}
      {row.owner && <span>Owner <Name text={row.owner} length={32} /></span>}
      {row.holder && <span>Worker <Id text={row.holder} /></span>}
      {row.parent && <span>Part of <a href={links.task(ANY_AGENT, row.parent)}><Id text={row.parent} /></a></span>}
    </div>
  );
}

/** Why a task failed, or what it waits for, before everything else. */
function Reason({ row, task }: { row: TaskRow; task: Task | null }) {
  const said = (textOf(task?.status.message?.parts) || row.status_text).slice(0, MAX_REASON);
  if (row.state === "failed" || row.state === "rejected") {
    return (
      <div class="problem task-reason">
        <Icon name="warning" />
        <div class="problem-text">
          <strong>{row.state === "failed" ? "The task failed" : "The agent rejected the task"}</strong>
          <span class="plain"><bdi>{said ? safeText(said) : "The agent gave no reason. The timeline shows what happened before."}</bdi></span>
          <Traceback agent={row.agent} task={row.id} reason={said} />
        </div>
        <ButtonLink small href={links.task(row.agent, row.id, { view: "timeline", at: row.events })}>Show the event</ButtonLink>
      </div>
    );
  }
  if (row.state !== "input-required" && row.state !== "auth-required") return null;
  return (
    <div class="task-waits">
      <Icon name="clock" />
      <div class="problem-text">
        <strong>{row.state === "auth-required" ? "The task waits for a login" : "The task waits for an answer"}</strong>
        {said && <span class="plain"><bdi>{safeText(said)}</bdi></span>}
      </div>
      {row.context && <ButtonLink small href={links.chat(row.agent, row.context)}>Answer in chat</ButtonLink>}
    </div>
  );
}

function TaskActions({ timeline, row, isLive }: { timeline: TaskTimeline; row: TaskRow; isLive: boolean }) {
  const [isComparing, setComparing] = useState(false);
  const url = timeline.details.value?.url;
  const cancel = () => {
    if (url) void askToCancel(url, row.id);
  };
  useCommands(() => {
    const group = "This task";
    return [
      { title: "Compare with another task", group, run: () => setComparing(true) },
      { title: "Show the timeline", group, run: () => setQuery({ view: "timeline" }) },
      { title: "Show the tree of runs", group, run: () => setQuery({ view: "tree" }) },
      ...(isLive ? [{ title: "Cancel this task", group, run: cancel }] : []),
    ];
  }, [row.id, isLive, url]);
  return (
    <>
      {row.context && <ButtonLink small icon="chat" href={links.chat(row.agent, row.context)}>Chat</ButtonLink>}
      <Button small icon="compare" onClick={() => setComparing(true)}>Compare with…</Button>
      {isLive && <Button small icon="stop" onClick={cancel}>Cancel</Button>}
      {isComparing && <CompareWith row={row} onClose={() => setComparing(false)} />}
    </>
  );
}

function RequestOf({ agent, id }: { agent: string; id: string }) {
  const loaded = useLoad(
    (signal) => api.get<{ request: TaskRequest | null }>(path("tasks", id, "request"), { query: { agent }, signal }), [agent, id],
  );
  return loaded.value && !loaded.error ? <RequestForms request={loaded.value.request} /> : <LoadState of={loaded} text="Loading the request…" />;
}
