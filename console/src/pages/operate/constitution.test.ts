import { describe, expect, test } from "vitest";
import { constitutionIn, FIELDS, lineOf, textsOf, toSend, withField } from "./constitution.ts";

const field = (name: string) => FIELDS.find((each) => each.name === name)!;

const AGENT = {
  id: "writer",
  name: "Writer",
  role: "author",
  model: "",
  goal: "Writes letters.",
  brevity: "full",
  max_tokens: 1024,
  temperature: 0.3,
  rules: ["Be short.", "Be kind."],
  advisor: { model: "x/y", mode: "gate" },
  advisor_model: "x/y",
  created_at: 1,
  updated_at: 2,
  version: 3,
  changed_by: "tenant:1",
  pinned_version: 2,
  stopped: { reason: "no" },
};

test("a constitution is what is left of an agent without its times, version and stop", () => {
  expect(Object.keys(constitutionIn(AGENT))).toEqual([
    "id", "name", "role", "model", "goal", "brevity", "max_tokens", "temperature", "rules", "advisor",
  ]);
});

describe("fields", () => {
  test.each([
    ["rules", "Be short.\nBe kind."],
    ["max_tokens", "1024"],
    ["when_busy", "queue"],
    ["approvals", ""],
    ["advisor", '{\n  "model": "x/y",\n  "mode": "gate"\n}'],
  ])("%s is shown as %j", (name, expected) => expect(textsOf(AGENT)[name]).toBe(expected));

  test("what a field says becomes the member, and what is emptied goes away", () => {
    expect(withField(AGENT, field("max_tokens"), "50")).toMatchObject({ max_tokens: 50 });
    expect("rules" in withField(AGENT, field("rules"), " \n")).toBe(false);
    expect(withField(AGENT, field("goal"), "")).toMatchObject({ goal: "" });
    expect(withField(AGENT, field("budget"), '{"tokens": 5}')).toMatchObject({ budget: { tokens: 5 } });
    expect(() => withField(AGENT, field("budget"), "{")).toThrow(SyntaxError);
  });

  test("lines that are empty stay while one types, and are not sent", () => {
    const edited = withField(AGENT, field("rules"), "one\n\ntwo\n");
    expect(edited.rules).toEqual(["one", "", "two", ""]);
    expect(toSend(edited).rules).toEqual(["one", "two"]);
  });
});

test("a path of the host leads to its line of the JSON", () => {
  const text = JSON.stringify(constitutionIn(AGENT), null, 2);
  const at = (path: string) => text.split("\n")[lineOf(text, path) - 1]?.trim();
  expect(at("$.goal")).toBe('"goal": "Writes letters.",');
  expect(at("$.rules[1]")).toBe('"Be kind."');
  expect(at("$.advisor.mode")).toBe('"mode": "gate"');
  expect(lineOf(text, "$.nothing")).toBe(0);
  expect(lineOf(text, "$")).toBe(0);
});
