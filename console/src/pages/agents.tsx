// The agents of this server or tenant, of catalogues, and those that the user has added; search, and adding by URL.

import { useEffect, useMemo, useState } from "preact/hooks";
import { addAgent, agentList, agentListError, agents, loadAgents } from "../api/agents.ts";
import { has } from "../api/session.ts";
import type { Agent } from "../api/types.ts";
import { links, navigate, query, setQuery } from "../router.ts";
import { plural, safeText, shortLine } from "../text/safe.ts";
import {
  Button, ButtonLink, Dialog, EmptyState, Icon, Name, Page, Problem, Progress, StateBadge, Tag, TextInput, toast, VirtualList,
} from "../ui/index.ts";
import { NoAgents } from "./no_agents.tsx";

const KINDS: Record<Agent["kind"], string> = { own: "this server", catalog: "catalogue", remote: "added" };

/** The agents in which all words occur: name, description, id, address. */
export function matching(all: readonly Agent[], text: string): readonly Agent[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return all;
  return all.filter((agent) => {
    const searched = `${agent.name} ${agent.id} ${agent.description.slice(0, 2000)} ${agent.address}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  });
}

export default function AgentsPage() {
  useEffect(() => void loadAgents(), []);
  const text = query.value.get("q") ?? "";
  const shown = useMemo(() => matching(agents.value, text), [agents.value, text]);
  const isAdding = query.value.get("add") === "1" && has("remote");
  return (
    <Page
      title="Agents" fill beside={agentList.value && <span class="dim small">{plural(shown.length, "agent")}</span>}
      actions={
        <>
          <TextInput label="Search agents" hideLabel type="search" placeholder="Search agents" value={text} onInput={(q) => setQuery({ q })} />
          {has("remote") && <Button kind="primary" icon="plus" onClick={() => setQuery({ add: "1" })}>Add agent</Button>}
        </>
      }
    >
      {agentListError.value && <div class="page-note"><Problem error={new Error(agentListError.value)} retry={() => void loadAgents()} /></div>}
      <SourceProblems />
      {!agentList.value ? !agentListError.value && <div class="page-note"><Progress text="Reading the agents…" /></div>
        : shown.length === 0 ? <NothingFound text={text} />
        : <VirtualList label="Agents" items={shown} itemKey={(agent) => agent.id} estimate={58} render={(agent) => <AgentRow agent={agent} />} />}
      {isAdding && <AddAgent onClose={() => setQuery({ add: null })} />}
    </Page>
  );
}

function SourceProblems() {
  const failed = agentList.value?.sources.filter((source) => source.error) ?? [];
  if (!failed.length) return null;
  return (
    <div class="page-note stack">
      {failed.map((source) => (
        <p class="note note-waiting" key={source.url}>
          <Icon name="warning" />
          <span class="wrap">The catalogue {shortLine(source.url, 120)} could not be read: {safeText(source.error!.slice(0, 500))}</span>
        </p>
      ))}
    </div>
  );
}

function NothingFound({ text }: { text: string }) {
  if (text) return <EmptyState title={`No agent matches “${shortLine(text, 40)}”`} actions={<Button onClick={() => setQuery({ q: null })}>Show all</Button>} />;
  return <NoAgents />;
}

function AgentRow({ agent }: { agent: Agent }) {
  const canChat = agent.state !== "stopped" && agent.state !== "unreachable";
  return (
    <div class="agent-row">
      <span class="agent-mark" aria-hidden="true">{initialOf(agent.name)}</span>
      <div class="agent-about">
        <div class="row agent-title">
          <a href={links.agent(agent.id)}><Name text={agent.name || agent.id} length={60} /></a>
          {agent.state !== "unknown" && <StateBadge state={agent.state} />}
          {agent.kind !== "own" && <Tag>{KINDS[agent.kind]}</Tag>}
        </div>
        <div class="dim cut">{agent.error ? <span class="bad-text">{shortLine(agent.error, 160)}</span> : shortLine(agent.description, 200)}</div>
      </div>
      <div class="agent-facts dim small">
        <span>{agent.skills > 0 && plural(agent.skills, "skill")}</span>
        <span>{agent.version && `${shortLine(agent.version, 12)} ${shortLine(agent.binding, 16)}`}</span>
      </div>
      {has("chat") && canChat && (
        <ButtonLink small icon="chat" href={links.chat(agent.id)}>Chat<span class="visually-hidden"> with {shortLine(agent.name, 40)}</span></ButtonLink>
      )}
    </div>
  );
}

/** The first letter of a name, for the mark before it. */
export function initialOf(name: string): string {
  return (shortLine(name, 20).match(/\p{L}|\p{N}/u)?.[0] ?? "?").toUpperCase();
}

function AddAgent({ onClose }: { onClose: () => void }) {
  const [url, setUrl] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const add = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const added = await addAgent(url.trim());
      toast(added.length ? `${plural(added.length, "agent")} added` : "It was there already");
      if (added.length === 1) navigate(links.agent(added[0]!.id));
      else onClose();
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title="Add an agent" onClose={onClose}>
      <form class="stack" onSubmit={add}>
        <TextInput
          label="Address" isCode isRequired autofocus placeholder="https://agents.example.com" value={url} onInput={setUrl}
          hint="Of an agent, its card, or a catalogue (ai-catalog.json). A2A 0.1 to 1.0, over any binding. The server calls it, not your browser."
        />
        {problem !== null && <Problem error={problem} />}
        <div class="row"><Button kind="primary" type="submit" busy={isBusy && "Looking for the card…"}>Add</Button><Button onClick={onClose}>Cancel</Button></div>
      </form>
    </Dialog>
  );
}
