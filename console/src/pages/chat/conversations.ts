// The conversations of this browser tab: open ones in memory, and a list of ids and titles that survives a reload.
// What was said is never stored here: it is read from the agent again. Agents of this server also know older contexts.

import { computed, effect, signal } from "../../signals.ts";
import { api } from "../../api/http.ts";
import { callerKey, forgetWithCaller } from "../../api/session.ts";
import { connection } from "../../api/stream.ts";
import type { Agent, TaskPage } from "../../api/types.ts";
import { shortLine } from "../../text/safe.ts";
import { Conversation } from "./conversation.ts";

export interface ConversationRow {
  agent: string;
  context: string;
  title: string;
  at: string;
}

const KEY = "parley-conversations";
const MAX_ROWS = 100;
const MAX_OPEN = 20;

/** Ids and titles, newest first. Those of another login are not shown. */
const own = signal<readonly ConversationRow[]>([]);
const known = signal<readonly ConversationRow[]>([]);
const open = new Map<string, Conversation>();
/** Conversations that have no context yet. */
export const fresh = new Set<Conversation>();

/** All conversations that can be opened, newest first. */
export const rows = computed<readonly ConversationRow[]>(() => {
  const all = new Map<string, ConversationRow>();
  for (const row of [...own.value, ...known.value]) if (!all.has(keyOf(row.agent, row.context))) all.set(keyOf(row.agent, row.context), row);
  return [...all.values()].sort((one, other) => other.at.localeCompare(one.at));
});

function keyOf(agent: string, context: string): string {
  return JSON.stringify([agent, context]);
}

/** Under which the list is kept: another caller must not see it. */
function storageKey(): string {
  return `${KEY}:${callerKey.peek()}`;
}

// The caller is known only when the session was read, and may be another one later.
let ownKey: string | null = null;
effect(() => {
  void callerKey.value;
  if (storageKey() === ownKey) return; // the session was only read again
  ownKey = storageKey();
  own.value = read();
});

forgetWithCaller(() => {
  for (const conversation of new Set([...open.values(), ...fresh])) conversation.close();
  open.clear();
  fresh.clear();
  known.value = [];
});

function read(): ConversationRow[] {
  try {
    const found = JSON.parse(sessionStorage.getItem(storageKey()) ?? "[]") as unknown;
    return Array.isArray(found) ? (found as ConversationRow[]).filter((row) => typeof row?.context === "string" && typeof row.agent === "string") : [];
  } catch {
    return [];
  }
}

function write(next: readonly ConversationRow[]): void {
  own.value = next.slice(0, MAX_ROWS);
  try {
    sessionStorage.setItem(storageKey(), JSON.stringify(own.value));
  } catch {
    // storage is switched off, or full: the list lasts as long as the page
  }
}

/** A conversation: the open one of this context, or one that is read now. Without a context, a new one. */
export function openConversation(agent: Agent, context: string): Conversation {
  const found = context ? open.get(keyOf(agent.id, context)) : undefined;
  if (found) return found;
  const conversation = new Conversation(agent, context);
  if (context) {
    keep(conversation);
    void conversation.load();
  }
  return conversation;
}

/** Keep a conversation that has got its context, and list it. */
export function keepConversation(conversation: Conversation, title: string): void {
  const { agent, contextId } = conversation;
  const context = contextId.peek();
  keep(conversation);
  const row = { agent: agent.id, context, title: shortLine(title, 80) || "Conversation", at: new Date().toISOString() };
  const rest = own.peek().filter((each) => each.agent !== row.agent || each.context !== context);
  const before = own.peek().find((each) => each.agent === row.agent && each.context === context);
  write([{ ...row, title: before?.title ?? row.title }, ...rest]);
}

function keep(conversation: Conversation): void {
  const key = keyOf(conversation.agent.id, conversation.contextId.peek());
  open.delete(key);
  open.set(key, conversation);
  for (const [oldest, each] of open) {
    if (open.size <= MAX_OPEN) break;
    if (!each.isShown && each.exchanges.peek().every((exchange) => exchange.isOver)) open.delete(oldest);
    else break;
  }
}

/** Take a conversation off the list. Its tasks stay with the agent, and it stays open: a message may be under way. */
export function forgetConversation(row: ConversationRow): void {
  write(own.peek().filter((each) => each.agent !== row.agent || each.context !== row.context));
  known.value = known.peek().filter((each) => each.agent !== row.agent || each.context !== row.context);
}

/** Read which conversations this server knows with an agent. */
export async function loadKnown(agent: Agent): Promise<void> {
  const before = known.peek().filter((row) => row.agent !== agent.id);
  if (agent.kind !== "own") return;
  try {
    const { tasks } = await api.get<TaskPage>("/tasks", { query: { agent: agent.id, limit: 100 } });
    const found = new Map<string, ConversationRow>();
    // Newest first: the oldest task of a context, which is the last here, gives it its title.
    for (const task of tasks) {
      if (!task.context) continue;
      const at = found.get(task.context)?.at ?? task.updated_at;
      found.set(task.context, { agent: agent.id, context: task.context, title: shortLine(task.title, 80) || "Conversation", at });
    }
    known.value = [...before, ...found.values()];
  } catch {
    // the list of this tab is enough
  }
}

// Open conversations hear of the connection also while another page is shown: what is not to be sent twice is closed then.
effect(() => {
  const { state } = connection.value;
  for (const conversation of new Set([...open.values(), ...fresh])) {
    if (state === "reconnecting") conversation.lose();
    else if (state === "connected") conversation.regain();
  }
});
