// Every task that one may see, with filters that are in the URL, live.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { agentList, agentOf, agents, loadAgents } from "../../api/agents.ts";
import { has, session } from "../../api/session.ts";
import { links, navigate, query } from "../../router.ts";
import { useShortcuts } from "../../shortcuts.ts";
import "../../styles/tasks.css";
import { countText, plural } from "../../text/safe.ts";
import { Button, ButtonLink, EmptyState, Page, Problem, Progress, Time } from "../../ui/index.ts";
import { NoAgents } from "../no_agents.tsx";
import { FilterBar } from "./filter_bar.tsx";
import { isFiltered, NO_FILTER, readFilter, writeFilter, type TaskFilter } from "./filters.ts";
import { ListView } from "./list_view.tsx";
import { RemoteList } from "./remote_list.tsx";
import { TaskList } from "./task_list.ts";

/** Tasks on a page of a search from which on the next page is read without asking. */
const DENSE = 20;

export default function TasksPage() {
  const search = query.value.toString();
  const filter = useMemo(() => readFilter(new URLSearchParams(search)), [search]);
  const isOperator = session.value?.caller?.is_operator ?? false;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (agentList.peek() === null) void loadAgents();
  }, []);
  useShortcuts(() => [
    { keys: "/", title: "Search in tasks", group: "Tasks", run: () => box.current?.querySelector<HTMLElement>("input[type=search]")?.focus() },
  ]);
  // Without tasks of its own, a server asks the agents for theirs, one at a time.
  const agent = agentOf(filter.agent) ?? (has("tasks") ? undefined : agents.value[0]);
  const isRemote = agent !== undefined && (agent.kind !== "own" || !has("tasks"));
  if (!agent && !has("tasks")) return <Page title="Tasks">{agentList.value ? <NoAgents /> : <Progress text="Reading the agents…" />}</Page>;
  return (
    <Page title="Tasks" fill>
      <div class="tasks-page" ref={box}>
        <FilterBar filter={filter} agent={agent?.id ?? filter.agent} onChange={show} isOperator={isOperator} isRemote={isRemote} />
        {isRemote ? <RemoteList key={agent.id + search} agent={agent} filter={filter} /> : <OwnList filter={filter} isOperator={isOperator} />}
      </div>
    </Page>
  );
}

function show(filter: TaskFilter): void {
  const text = writeFilter(filter).toString();
  navigate(text ? `${links.tasks()}?${text}` : links.tasks(), { replace: true });
}

function OwnList({ filter, isOperator }: { filter: TaskFilter; isOperator: boolean }) {
  const wanted = useMemo(() => new TaskList(filter, Date.now()), [filter]);
  // The rows of the last filter stay until those of the next one are here.
  const [list, setList] = useState(wanted);
  useEffect(() => {
    void wanted.open().then(() => setList(wanted));
    return () => wanted.close();
  }, [wanted]);
  const version = list.version.value;
  const rows = useMemo(() => list.rows.rows, [list, version]);
  const error = list.error.value;
  const isLoading = list.isLoading.value;
  if (rows.length === 0) {
    if (error !== null) return <Problem error={error} title="Tasks cannot be shown" retry={() => void list.retry()} />;
    if (isLoading) return <Progress text={filter.text ? "Searching in tasks…" : "Loading tasks…"} />;
    return <NoTasks list={list} filter={filter} />;
  }
  // A search that finds little would read everything for the sake of a few rows; it goes on if it is asked to.
  const goesOn = list.rows.searched === null || list.rows.lastCount >= DENSE;
  return (
    <>
      <Count list={list} filter={filter} />
      {error !== null && <Problem error={error} retry={() => void list.retry()} />}
      <ListView rows={rows} showTenant={isOperator} onEnd={() => goesOn && void list.more()} />
    </>
  );
}

/** How many tasks there are, and how far a search got. */
function Count({ list, filter }: { list: TaskList; filter: TaskFilter }) {
  void list.version.value; // what is counted changes with it
  const { rows, total, searched, hasMore } = list.rows;
  const isLoading = list.isLoading.value;
  return (
    <p class="task-count" role={searched === null ? undefined : "status"}>
      {searched !== null
        ? <>{plural(rows.length, "task")} found; searched {plural(searched.tasks, "task")}{hasMore && <>, back to <Time at={searched.until} as="full" /></>}.</>
        : <>{total === null ? `${countText(rows.length)}${hasMore ? " and more" : ""} tasks` : plural(total, "task")}{filter.text ? " found" : ""}</>}
      {searched !== null && hasMore && <> <Button small busy={isLoading && "Searching…"} onClick={() => void list.more()}>Go on</Button></>}
      {searched === null && isLoading && <span class="dim"> Loading more…</span>}
    </p>
  );
}

function NoTasks({ list, filter }: { list: TaskList; filter: TaskFilter }) {
  void list.version.value;
  const { searched, hasMore } = list.rows;
  if (searched !== null && hasMore) {
    return (
      <EmptyState
        title={`Nothing in the newest ${plural(searched.tasks, "task")}`} icon="search"
        actions={<Button kind="primary" busy={list.isLoading.value && "Searching…"} onClick={() => void list.more()}>Go on</Button>}
      >
        Searched back to <Time at={searched.until} as="full" />. Older tasks may have the text.
      </EmptyState>
    );
  }
  if (isFiltered(filter)) {
    return (
      <EmptyState title="No task matches" icon="filter" actions={<Button onClick={() => show(NO_FILTER)}>Clear the filters</Button>}>
        {filter.text ? "The text is in no message, artifact, status or id of the tasks that you may see." : "Tasks that match will appear here as they come."}
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No tasks yet" icon="tasks" actions={<ButtonLink kind="primary" href={links.chat()}>Open a chat</ButtonLink>}>
      Send a message to an agent, here or with any A2A client. Its task appears here at once.
    </EmptyState>
  );
}
