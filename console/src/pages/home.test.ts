import { expect, test } from "vitest";
import type { AgentDetails } from "../api/types.ts";
import { matching } from "./agents.tsx";
import { promptsOf } from "./home.tsx";

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
