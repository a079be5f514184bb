import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { agentList } from "../api/agents.ts";
import { session } from "../api/session.ts";
import type { Agent, AgentDetails, AgentState, Session } from "../api/types.ts";
import { matching } from "./agents.tsx";
import HomePage, { promptsOf } from "./home.tsx";

function details(id: string, examples: string[][]): AgentDetails {
  const skills = examples.map((texts, index) => ({ id: `s${index}`, name: "", description: "", examples: texts }));
  const agent = { id, name: id.toUpperCase(), description: `about ${id}`, address: `http://x/${id}` };
  return { agent, card: { name: id, description: "", version: "1", skills } } as unknown as AgentDetails;
}

test("the examples come from one agent after the other, and each once", () => {
  const prompts = promptsOf([details("a", [["a1", "a2"], ["a3"]]), details("b", []), details("c", [["c1", "a1"]])], 4);
  expect(prompts.map(({ agent, text, skill }) => [agent.id, text, skill])).toEqual([["a", "a1", "s0"], ["c", "c1", "s0"], ["a", "a2", "s0"], ["a", "a3", "s1"]]);
});

test("agents are found by all words, in any member", () => {
  const all = [details("currency", []), details("units", [])].map((each) => each.agent);
  expect(matching(all, "about CURR").map((agent) => agent.id)).toEqual(["currency"]);
  expect(matching(all, "http://x").map((agent) => agent.id)).toEqual(["currency", "units"]);
  expect(matching(all, " ")).toBe(all);
});

let box: HTMLElement;

beforeEach(() => {
  box = document.body.appendChild(document.createElement("div"));
});

afterEach(() => {
  act(() => render(null, box));
  box.remove();
  session.value = null;
  agentList.value = null;
  vi.unstubAllGlobals();
});

test.each<AgentState>(["unreachable", "needs_login"])("of a catalogue whose agents are %s, Home calls eight and no more", async (state) => {
  const calls: string[] = [];
  const agentOf = (id: string) => ({ id, name: id, kind: "catalog", state: calls.includes(id) ? state : "unknown" }) as Agent;
  vi.stubGlobal("fetch", async (url: string) => {
    if (url.endsWith("/agents")) return Response.json({ agents: Array.from({ length: 30 }, (_, index) => agentOf(`r${index}`)), sources: [] });
    const id = url.split("/").at(-1)!;
    calls.push(id);
    return Response.json({ agent: agentOf(id), card: null });
  });
  session.value = { server: { name: "P" }, features: ["agents"] } as unknown as Session;
  await act(() => render(<HomePage />, box));
  await vi.waitFor(() => expect(box.querySelector(".prompts")).not.toBeNull());
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(calls).toEqual(["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"]);
});
