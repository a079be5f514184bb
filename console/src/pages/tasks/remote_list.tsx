// The tasks of an agent elsewhere, as far as it lists them: ListTasks of A2A, which releases before 1.0 mostly lack.

import { useEffect, useState } from "preact/hooks";
import { listTasks } from "../../a2a/client.ts";
import { textOf } from "../../a2a/fold.ts";
import type { ListTasksRequest, Task, TaskState } from "../../a2a/types.ts";
import { isAbort } from "../../api/http.ts";
import type { Agent, TaskRow } from "../../api/types.ts";
import { plural, shortLine } from "../../text/safe.ts";
import { Button, EmptyState, Problem, Progress, rowState } from "../../ui/index.ts";
import { apiFilter, type TaskFilter } from "./filters.ts";
import { ListView } from "./list_view.tsx";

const PAGE = 50;

interface Listed {
  rows: TaskRow[];
  token: string;
  total: number | null;
  error: unknown;
  isLoading: boolean;
}

const NOTHING: Listed = { rows: [], token: "", total: null, error: null, isLoading: true };

/** Its key is what it lists: another agent or filter is another list. */
export function RemoteList({ agent, filter }: { agent: Agent; filter: TaskFilter }) {
  const [listed, setListed] = useState<Listed>(NOTHING);
  const load = async (token: string, signal?: AbortSignal) => {
    setListed((before) => ({ ...before, isLoading: true }));
    try {
      const page = await listTasks(agent.url, requestOf(filter, token), signal);
      const rows = page.tasks.map((task) => rowOf(task, agent)).filter((row) => filter.states.length === 0 || filter.states.includes(row.state));
      setListed((before) => ({
        rows: token ? [...before.rows, ...rows] : rows, token: page.nextPageToken || "", total: page.totalSize || null, error: null, isLoading: false,
      }));
    } catch (error) {
      if (!isAbort(error)) setListed((before) => ({ ...before, error, isLoading: false }));
    }
  };
  useEffect(() => {
    const abort = new AbortController();
    void load("", abort.signal);
    return () => abort.abort();
  }, []);
  const next = () => {
    if (!listed.isLoading) void load(listed.token);
  };
  const problem = listed.error !== null && <Problem title="Tasks cannot be shown" error={listed.error} retry={next} />;
  if (listed.rows.length === 0) {
    if (listed.isLoading) return <Progress text={`Asking ${shortLine(agent.name, 40)} for its tasks…`} />;
    if (problem) return problem;
  }
  return (
    <>
      {problem}
      <p class="task-count" role="status">
        {plural(listed.total ?? listed.rows.length, "task")} of {shortLine(agent.name, 60)}, as the agent lists them. They are read once, not live.
        {listed.token && <> <Button small onClick={next}>Read more</Button></>}
      </p>
      {listed.rows.length === 0
        ? <EmptyState title="The agent lists no such task" icon="tasks">It shows you only tasks that you have begun.</EmptyState>
        : <ListView rows={listed.rows} showTenant={false} onEnd={() => listed.token && !problem && next()} />}
    </>
  );
}

function requestOf(filter: TaskFilter, token: string): ListTasksRequest {
  const { context, since, state } = apiFilter(filter, Date.now());
  const [only, ...others] = state ?? [];
  return {
    pageSize: PAGE,
    historyLength: 1,
    ...(token ? { pageToken: token } : {}),
    ...(context ? { contextId: context } : {}),
    ...(since ? { statusTimestampAfter: since } : {}),
    // A2A filters by one state; several are filtered here.
    ...(only && others.length === 0 ? { status: `TASK_STATE_${only.toUpperCase().replaceAll("-", "_")}` as TaskState } : {}),
  };
}

function rowOf(task: Task, agent: Agent): TaskRow {
  const at = task.status.timestamp ?? "";
  return {
    id: task.id, agent: agent.id, agent_name: agent.name, context: task.contextId ?? "", state: rowState(task.status.state),
    tenant: "", owner: "", created_at: null, updated_at: at, events: 0, size: 0,
    title: textOf(task.history?.[0]?.parts).slice(0, 500), status_text: textOf(task.status.message?.parts).slice(0, 500),
    created_in: agent.version, holder: "", parent: null,
  };
}
