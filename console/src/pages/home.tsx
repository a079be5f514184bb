// The first page: requests that can be sent with one click, taken from the examples of the agents, and what ran last.

import { useEffect } from "preact/hooks";
import { agentList, agentListError, agents, loadAgents, readAgent } from "../api/agents.ts";
import { api } from "../api/http.ts";
import { has, session } from "../api/session.ts";
import type { Agent, AgentDetails, TaskPage, TaskRow } from "../api/types.ts";
import { links, startChat } from "../router.ts";
import { shortLine } from "../text/safe.ts";
import { Icon, Name, Page, Problem, Progress, Section, StateBadge, Time, useLoad } from "../ui/index.ts";
import { NoAgents } from "./no_agents.tsx";

/** Agents whose cards are read for their examples. */
const MOST_AGENTS = 8;
const MOST_PROMPTS = 8;
/** How long an agent elsewhere may take to send its card: one that hangs must not keep the examples of others. */
const CARD_MS = 3_000;

interface Prompt {
  agent: Agent;
  text: string;
  skill: string;
}

/** Examples of the agents' skills, taken from one agent after the other, so that each is represented. */
export function promptsOf(cards: readonly AgentDetails[], most = MOST_PROMPTS): Prompt[] {
  const queues = cards.map(({ agent, card }) =>
    (card?.skills ?? []).flatMap((skill) => (skill.examples ?? []).map((text) => ({ agent, text, skill: skill.id }))),
  );
  const prompts: Prompt[] = [];
  for (let round = 0; prompts.length < most && queues.some((queue) => queue.length > round); round++) {
    for (const queue of queues) {
      const next = queue[round];
      if (next && prompts.length < most && !prompts.some((each) => each.text === next.text)) prompts.push(next);
    }
  }
  return prompts;
}

/** What the starter agents of a host do together: three of them work on it, and it makes a file. */
function orchestrationPrompt(): Prompt[] {
  const orchestrator = agents.value.find((agent) => agent.id === "index");
  const hasStarters = ["units", "currency", "drafts"].every((id) => agents.value.some((agent) => agent.id === id));
  if (!orchestrator || !hasStarters) return [];
  return [{ agent: orchestrator, text: "5 miles in km and 100 USD in EUR, then write that to notes.md", skill: "" }];
}

/** Whether a message may be answered: an agent that was not called yet may turn out to want a login. */
function isCallable({ state }: Agent): boolean {
  return state === "ready" || state === "unknown";
}

/** Agents without examples are asked what they do. */
function fallbackPrompts(): Prompt[] {
  return agents.value
    .filter(isCallable)
    .slice(0, 4)
    .map((agent) => ({ agent, text: "What can you do?", skill: "" }));
}

export default function HomePage() {
  useEffect(() => void loadAgents(), []);
  const name = session.value?.server.name ?? "";
  return (
    <Page title={name ? `Welcome to ${shortLine(name, 60)}` : "Welcome"}>
      <div class="home">
        <Start />
        {has("tasks") && <RecentTasks />}
      </div>
    </Page>
  );
}

function Start() {
  // Only when the list comes: a card that is read changes its agent in the list, and others would take the place of it.
  const cards = useLoad(
    async (signal) => {
      if (!agentList.peek()) return null;
      const callable = agents.peek().filter(isCallable);
      const own = callable.filter((agent) => agent.kind === "own");
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(CARD_MS)]);
      const all = await Promise.allSettled((own.length ? own : callable).slice(0, MOST_AGENTS).map(({ id }) => readAgent(id, inTime)));
      return all.flatMap((each) => (each.status === "fulfilled" && isCallable(each.value.agent) ? [each.value] : []));
    },
    [!agentList.value],
  );
  if (agentListError.value && !agentList.value) {
    return <Problem title="The agents could not be read." error={new Error(agentListError.value)} retry={() => void loadAgents()} />;
  }
  if (!agentList.value || !cards.value) return <Progress text="Reading the agents…" />;
  if (!agents.value.length) return <NoAgents />;
  const found = [...orchestrationPrompt(), ...promptsOf(cards.value, MOST_PROMPTS - 1)];
  const prompts = found.length ? found : fallbackPrompts();
  return (
    <Section title="Try one of these" actions={<a href={links.agents()} class="small">All agents</a>}>
      <p class="dim">{prompts.length ? "One click sends it, and the answer is streamed." : "No agent can be asked now; their pages say why."}</p>
      <ul class="plain prompts">
        {prompts.map((prompt) => (
          <li key={`${prompt.agent.id} ${prompt.text}`}>
            <a class="prompt" href={links.chat(prompt.agent.id, undefined, { message: prompt.text })} onClick={(event) => send(event, prompt)}>
              <span class="prompt-text"><bdi>{shortLine(prompt.text, 160)}</bdi></span>
              <span class="dim small cut"><Name text={prompt.agent.name} length={40} /></span>
              <Icon name="send" />
            </a>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function send(event: MouseEvent, prompt: Prompt): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  startChat({ agent: prompt.agent.id, text: prompt.text, ...(prompt.skill ? { skill: prompt.skill } : {}) });
}

function RecentTasks() {
  const { value, error, reload, isLoading } = useLoad((signal) => api.get<TaskPage>("/tasks", { query: { limit: 8 }, signal }), [session.value?.caller?.tenant]);
  return (
    <Section title="Recent tasks" actions={<a href={links.tasks()} class="small">All tasks</a>}>
      {error ? <Problem error={error} retry={reload} /> : !value && isLoading ? <Progress text="Reading the tasks…" /> : (
        <ul class="plain recent">
          {value?.tasks.map((task) => <li key={`${task.agent} ${task.id}`}><RecentTask task={task} /></li>)}
          {!value?.tasks.length && <li class="dim">No task yet. Send one of the requests, and it appears here.</li>}
        </ul>
      )}
    </Section>
  );
}

function RecentTask({ task }: { task: TaskRow }) {
  return (
    <a class="recent-row" href={links.task(task.agent, task.id)}>
      <StateBadge state={task.state} />
      <span class="cut grow"><Name text={task.title || task.id} length={80} /></span>
      <span class="dim small cut"><Name text={task.agent_name || task.agent} length={24} /></span>
      <span class="dim small"><Time at={task.updated_at} /></span>
    </a>
  );
}
