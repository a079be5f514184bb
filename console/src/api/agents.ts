// The agents that the console knows, shared by all pages: read once, and again when the user adds one or asks for it.

import { computed, signal } from "../signals.ts";
import { api, messageOf, path } from "./http.ts";
import { forgetWithCaller } from "./session.ts";
import type { Agent, AgentDetails, AgentList, LoginReply } from "./types.ts";

/** The agents; null until they were read for the first time. */
export const agentList = signal<AgentList | null>(null);

/** Why they could not be read; empty if they were. */
export const agentListError = signal("");

export const agents = computed<readonly Agent[]>(() => agentList.value?.agents ?? []);

/** The agent of an id, if it is known. */
export function agentOf(id: string): Agent | undefined {
  return agents.value.find((each) => each.id === id);
}

let reading: Promise<void> | null = null;

forgetWithCaller(() => {
  reading = null;
  agentList.value = null;
});

/** Read the agents. Concurrent callers share one request; errors are in `agentListError`. */
export function loadAgents(): Promise<void> {
  if (reading) return reading;
  const mine = api
    .get<AgentList>("/agents")
    .then(
      (list) => {
        if (reading !== mine) return; // the session has changed meanwhile
        agentList.value = list;
        agentListError.value = "";
      },
      (error: unknown) => {
        if (reading === mine) agentListError.value = messageOf(error);
      },
    )
    .finally(() => {
      if (reading === mine) reading = null;
    });
  reading = mine;
  return mine;
}

/** Add an agent, or all of a catalogue, by URL. Returns those that were not known before. Raises ApiError. */
export async function addAgent(url: string): Promise<Agent[]> {
  const known = new Set(agents.peek().map((each) => each.id));
  agentList.value = await api.post<AgentList>("/agents", { url });
  return agents.peek().filter((each) => !known.has(each.id));
}

/** Remove an agent that was added. Raises ApiError. */
export async function removeAgent(id: string): Promise<void> {
  await api.delete(path("agents", id));
  await loadAgents();
}

/** Everything about an agent; connects to it. The list learns its state as well. Raises ApiError. */
export async function readAgent(id: string, signal?: AbortSignal): Promise<AgentDetails> {
  const details = await api.get<AgentDetails>(path("agents", id), signal ? { signal } : {});
  const list = agentList.peek();
  if (list) {
    agentList.value = { ...list, agents: list.agents.map((each) => (each.id === id ? details.agent : each)) };
  }
  return details;
}

/** Log in at an agent: the first step, or the next poll of a device login. Raises ApiError. */
export function logInAt(
  id: string, body: { scheme: string; values?: Record<string, string>; scopes?: string[]; poll?: true },
): Promise<LoginReply> {
  return api.post<LoginReply>(`${path("agents", id)}/login`, body);
}

/** Forget the credentials for an agent. Raises ApiError. */
export function logOutAt(id: string): Promise<unknown> {
  return api.post(`${path("agents", id)}/logout`);
}
