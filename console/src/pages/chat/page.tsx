// The chat: an agent, its conversations, and one of them. Every conversation has an address.

import "../../styles/chat.css";
import { untracked } from "../../signals.ts";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, path } from "../../api/http.ts";
import type { Agent, AgentDetails, AgentList } from "../../api/types.ts";
import type { JsonObject, Part } from "../../a2a/types.ts";
import { useCommands } from "../../commands.ts";
import { questionOf } from "../../content/questions.ts";
import { links, navigate, query, setQuery, toSend } from "../../router.ts";
import { useShortcuts } from "../../shortcuts.ts";
import { shortLine } from "../../text/safe.ts";
import { ButtonLink, EmptyState, Page, Problem, Progress, Select, toastError, useLoad } from "../../ui/index.ts";
import { NoAgents } from "../no_agents.tsx";
import type { PageProps } from "../registry.ts";
import { filesIn } from "./attachments.ts";
import { Composer } from "./composer.tsx";
import type { Conversation } from "./conversation.ts";
import { ConversationList } from "./conversation_list.tsx";
import { fresh, keepConversation, loadKnown, openConversation } from "./conversations.ts";
import { Draft } from "./draft.ts";
import type { Exchange } from "./exchange.ts";
import type { ExchangeActions } from "./exchange_view.tsx";
import { Transcript } from "./transcript.tsx";

export default function ChatPage({ params }: PageProps) {
  const { value, error, reload } = useLoad((signal) => api.get<AgentList>("/agents", { signal }), []);
  const agents = value?.agents;
  const agent = agents?.find((each) => each.id === params["agent"]);
  const only = agents?.length === 1 && !params["agent"] ? agents[0] : undefined;
  useEffect(() => {
    if (only) navigate(links.chat(only.id) + location.search, { replace: true });
  }, [only]);
  if (error && !agents) return <Page title="Chat"><Problem error={error} retry={reload} /></Page>;
  if (!agents || only) return <Page title="Chat"><Progress text="Loading agents…" /></Page>;
  if (!agent) return <ChooseAgent agents={agents} wanted={params["agent"]} />;
  return <Chat key={agent.id} agent={agent} agents={agents} context={params["context"] ?? ""} />;
}

function ChooseAgent({ agents, wanted }: { agents: readonly Agent[]; wanted: string | undefined }) {
  if (agents.length === 0) return <Page title="Chat"><NoAgents /></Page>;
  return (
    <Page title="Chat">
      {wanted && <p class="dim">There is no agent {shortLine(wanted, 60)} here any more.</p>}
      <h2 class="chat-choose">With which agent?</h2>
      <ul class="plain chat-agents">
        {agents.map((agent) => (
          <li key={agent.id}>
            <a href={links.chat(agent.id)}>
              <strong><bdi>{shortLine(agent.name, 60) || agent.id}</bdi></strong>
              <span class="dim">{shortLine(agent.description, 140)}</span>
            </a>
          </li>
        ))}
      </ul>
    </Page>
  );
}

interface ChatProps {
  agent: Agent;
  agents: readonly Agent[];
  context: string;
}

function Chat({ agent, agents, context }: ChatProps) {
  const [round, setRound] = useState(0);
  const conversation = useMemo(() => openConversation(agent, context), [agent, context, round]);
  const input = useRef<HTMLTextAreaElement>(null);
  useEffect(() => void loadKnown(agent), [agent]);
  useShown(conversation, context);

  function begin() {
    if (context) navigate(links.chat(agent.id));
    else setRound(round + 1);
    input.current?.focus();
  }
  useShortcuts(() => [
    { keys: "n", title: "New conversation", group: "Chat", run: begin },
    { keys: "i", title: "Write a message", group: "Chat", run: () => input.current?.focus() },
  ], [context, round]);
  useCommands(() => [{ title: "New conversation", group: "Chat", run: begin }], [context, round]);

  const options = agents.map((each) => ({ value: each.id, title: shortLine(each.name, 40) || each.id }));
  return (
    <Page
      title={shortLine(agent.name, 60) || agent.id} fill trail={[["Chat", links.chat()]]}
      actions={
        <>
          {agents.length > 1 && (
            <div class="chat-agent">
              <Select label="Agent" hideLabel value={agent.id} options={options} onChange={(id) => navigate(links.chat(id))} />
            </div>
          )}
          <ButtonLink href={links.agent(agent.id)} kind="quiet">Card</ButtonLink>
        </>
      }
    >
      <div class="chat">
        <ConversationList agent={agent} context={conversation.contextId.value} onNew={begin} />
        <Talk key={round} conversation={conversation} input={input} />
      </div>
    </Page>
  );
}

/** Announce what is on the screen only; put the context into the address before anything of a reply is on the screen. */
function useShown(conversation: Conversation, context: string) {
  const known = conversation.contextId.value;
  useEffect(() => {
    conversation.isShown = true;
    fresh.add(conversation);
    return () => {
      conversation.isShown = false;
      if (conversation.exchanges.peek().length === 0 || conversation.contextId.peek()) fresh.delete(conversation);
    };
  }, [conversation]);
  useLayoutEffect(() => {
    if (!known || context === known || conversation.exchanges.peek().length === 0) return;
    const first = conversation.exchanges.peek()[0]?.message?.parts?.find((part) => part.text)?.text ?? "";
    keepConversation(conversation, first);
    navigate(links.chat(conversation.agent.id, known), { replace: true });
  }, [known, context, conversation]);
}

const drafts = new WeakMap<Conversation, Draft>();

function draftOf(conversation: Conversation): Draft {
  const draft = drafts.get(conversation) ?? new Draft();
  drafts.set(conversation, draft);
  return draft;
}

function Talk({ conversation, input }: { conversation: Conversation; input: RefObject<HTMLTextAreaElement | null> }) {
  const { agent } = conversation;
  const draft = draftOf(conversation);
  const [released, release] = useState<Exchange | null>(null);
  const [isOver, setOver] = useState(false);
  const skill = query.value.get("skill");
  const last = conversation.exchanges.value.at(-1);
  void last?.version.value;
  const waiting = conversation.waiting === released ? null : conversation.waiting;

  function send(parts: Part[], answers = waiting, metadata: JsonObject | undefined = skill && !answers ? { skillId: skill } : undefined) {
    conversation.send(parts, { answers, metadata });
    // The button or form that was used may be gone now.
    input.current?.focus();
    const context = conversation.contextId.peek();
    if (context) keepConversation(conversation, parts.find((part) => part.text)?.text ?? "");
  }

  useEffect(() => {
    const wanted = toSend.peek();
    if (wanted?.agent === agent.id) {
      toSend.value = null;
      conversation.send([{ text: wanted.text }], wanted.skill ? { metadata: { skillId: wanted.skill } } : {});
      return input.current?.focus();
    }
    // A text in the address is never sent by itself: another site, or an agent, could have made the link.
    const text = query.peek().get("message");
    if (!text || !input.current) return input.current?.focus();
    setQuery({ message: null });
    draft.text.value = text;
    input.current.focus();
  }, [conversation]);

  const cancel = (exchange: Exchange) => {
    conversation.cancel(exchange).catch((error: unknown) => toastError(error, "The task could not be canceled"));
  };
  const actions: ExchangeActions = {
    answer: (exchange, parts, metadata) => send(parts, exchange, metadata),
    cancel,
    retry: (exchange) => conversation.retry(exchange),
    follow: (exchange) => conversation.follow(exchange),
  };
  const isRunning = last && last.taskId && (last.phase === "running" || last.phase === "cut");
  return (
    <section
      class={isOver ? "talk talk-drop" : "talk"} aria-label={`Conversation with ${shortLine(agent.name, 60)}`}
      onDragOver={(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave={(event) => { if (event.currentTarget === event.target) setOver(false); }}
      onDrop={(event) => { event.preventDefault(); setOver(false); draft.addFiles(filesIn(event.dataTransfer)); }}
    >
      <Transcript conversation={conversation} actions={actions}>
        <Beginning conversation={conversation} onSend={(text) => send([{ text }])} />
      </Transcript>
      <Composer
        draft={draft} agent={agent.name} input={input} onSend={(parts) => send(parts)} onCancel={isRunning ? () => { cancel(last); input.current?.focus(); } : null}
        answers={waiting ? { question: untracked(() => questionTextOf(waiting)), onRelease: () => release(waiting) } : null}
        skill={skill && !waiting ? { name: skill, onRelease: () => setQuery({ skill: null }) } : null}
      />
    </section>
  );
}

function questionTextOf(exchange: Exchange): string {
  const artifacts = exchange.artifactRecords.map((each) => ({ artifactId: each.id, name: each.name, parts: [...each.parts] }));
  return exchange.status ? questionOf(exchange.status, artifacts.slice(-1)) : "";
}

const MAX_EXAMPLES = 4;

/** What an empty conversation shows: why it is empty, or what one could ask. */
function Beginning({ conversation, onSend }: { conversation: Conversation; onSend: (text: string) => void }) {
  const { agent } = conversation;
  const { value } = useLoad((signal) => api.get<AgentDetails>(`/agents${path(agent.id)}`, { signal }), [agent]);
  if (conversation.loading.value === "loading") return <Progress text="Reading the conversation…" />;
  if (conversation.loading.value === "unknown") {
    return (
      <EmptyState title="This conversation cannot be read again" icon="chat">
        The agent does not list its tasks ({shortLine(conversation.problem.value, 200)}). You can still go on with it.
      </EmptyState>
    );
  }
  if (agent.state === "needs_login") {
    return (
      <EmptyState title="This agent needs a login" icon="lock" actions={<ButtonLink href={links.agent(agent.id)} kind="primary">Log in</ButtonLink>}>
        Log in on its card, and come back.
      </EmptyState>
    );
  }
  const examples = (value?.card?.skills ?? []).flatMap((skill) => (Array.isArray(skill.examples) ? skill.examples : []));
  return (
    <EmptyState title={`Say something to ${shortLine(agent.name, 60)}`} icon="chat">
      <p>{shortLine(agent.description, 300)}</p>
      <ul class="plain chat-examples">
        {examples.filter((text) => typeof text === "string" && text.length < 500).slice(0, MAX_EXAMPLES).map((text) => (
          <li key={text}><button type="button" class="button" onClick={() => onSend(text)}><bdi>{shortLine(text, 80)}</bdi></button></li>
        ))}
      </ul>
    </EmptyState>
  );
}
