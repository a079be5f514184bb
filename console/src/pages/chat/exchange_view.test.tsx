// An exchange on the page: what the user finds, hears and can do in each state.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, test, vi } from "vitest";
import type { Message, Part, StreamResponse, TaskState } from "../../a2a/types.ts";
import { Exchange } from "./exchange.ts";
import { ExchangeView, type ExchangeActions } from "./exchange_view.tsx";

const box = document.createElement("div");
document.body.append(box);
afterEach(() => render(null, box));

const message = (role: "USER" | "AGENT", ...parts: Part[]): Message => ({ messageId: JSON.stringify(parts), role: `ROLE_${role}`, parts });
const state = (name: string, said?: Message): StreamResponse => ({
  statusUpdate: { taskId: "t", status: { state: `TASK_STATE_${name}` as TaskState, ...(said ? { message: said } : {}) } },
});

async function show(exchange: Exchange, isLast = true) {
  const actions = { answer: vi.fn(), cancel: vi.fn(), retry: vi.fn(), follow: vi.fn() } satisfies ExchangeActions;
  await act(() => render(<ExchangeView exchange={exchange} agent={{ id: "a", name: "A" }} isLast={isLast} actions={actions} />, box));
  return actions;
}

const button = (name: string) => [...box.querySelectorAll("button")].find((each) => each.textContent?.includes(name))!;

function after(...events: StreamResponse[]): Exchange {
  const exchange = new Exchange(message("USER", { text: "hello" }));
  events.forEach((event, index) => exchange.take(event, index + 1));
  return exchange;
}

test("a failed task says why at once, with the way to its timeline and a way to try again", async () => {
  const exchange = after(state("FAILED", message("AGENT", { text: "The vault is <b>empty</b>." })));
  const actions = await show(exchange);
  expect(box.querySelector(".failure")!.textContent).toContain("The vault is <b>empty</b>.");
  expect(box.querySelector(".failure a")!.getAttribute("href")).toBe("/console/tasks/a/t");
  button("Try again").click();
  expect(actions.retry).toHaveBeenCalledWith(exchange);
});

test("a failed task without a message says what its metadata says", async () => {
  const exchange = after({ task: { id: "t", status: { state: "TASK_STATE_FAILED" }, metadata: { "x-arbiter.error": "Out of budget" } } });
  await show(exchange);
  expect(box.querySelector(".failure")!.textContent).toContain("Out of budget");
});

test("a form is answered in place with data, and its schema is not shown afterwards", async () => {
  const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const exchange = after(state("INPUT_REQUIRED", message("AGENT", { text: "Where to?" }, { data: schema })));
  const actions = await show(exchange);
  const input = box.querySelector<HTMLInputElement>(".schema-form input")!;
  await act(() => {
    input.value = "Rome";
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await act(() => void box.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })));
  const answer = [{ data: { city: "Rome" }, mediaType: "application/json" }];
  expect(actions.answer).toHaveBeenCalledWith(exchange, answer);
  exchange.addUser(message("USER", ...answer));
  exchange.setPhase("sending");
  await show(exchange);
  expect(box.querySelector(".schema-form, [role=tree]")).toBeNull();
  expect(box.querySelectorAll(".said-user")[1]!.textContent).toBe("You: cityRome");
});

test("a question that is not the last exchange has a field of its own", async () => {
  const exchange = after(state("INPUT_REQUIRED", message("AGENT", { text: "Milk?" })));
  await show(exchange);
  expect(box.querySelector(".question input")).toBeNull();
  const actions = await show(exchange, false);
  const input = box.querySelector<HTMLInputElement>(".question input")!;
  await act(() => {
    input.value = "yes";
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await act(() => void box.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })));
  expect(actions.answer).toHaveBeenCalledWith(exchange, [{ text: "yes" }]);
});

test("a request for a permission leads to safe addresses only, and goes on when the user says so", async () => {
  const text = "Go to https://login.example/start. Not to javascript:alert(1).";
  const exchange = after(state("AUTH_REQUIRED", message("AGENT", { text })));
  const actions = await show(exchange);
  expect([...box.querySelectorAll(".question a.button")].map((link) => link.getAttribute("href"))).toEqual(["https://login.example/start"]);
  button("I have done this").click();
  expect(actions.answer).toHaveBeenCalledWith(exchange, [{ text: "I have done this." }]);
});

test("a credential is typed into a field that hides and forgets it, and goes out as metadata", async () => {
  const name = "urn:parley:authorization-request:1";
  const asked = { ...message("AGENT", { text: "I need a key: https://keys.example" }), metadata: { [name]: { scheme: "ApiKey", text: true } } };
  const exchange = after(state("AUTH_REQUIRED", asked));
  const actions = await show(exchange);
  expect(button("I have done this")).toBeUndefined();
  expect(box.querySelector(".question a.button")!.getAttribute("href")).toBe("https://keys.example/");
  const input = box.querySelector<HTMLInputElement>(".question input")!;
  expect([input.type, input.autocomplete, input.labels![0]!.textContent]).toEqual(["password", "off", "Credential (ApiKey)"]);
  await act(() => {
    input.value = "s3cret";
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await act(async () => void box.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })));
  const credential = { [name]: { credential: "s3cret", scheme: "ApiKey" } };
  expect(actions.answer).toHaveBeenCalledWith(exchange, [{ text: "Authorized." }], credential);
  expect(input.value).toBe("");
});

test("a message that was not answered can be sent again", async () => {
  const exchange = new Exchange(message("USER", { text: "hello" }));
  exchange.setPhase("unsent", "Only text is accepted");
  const actions = await show(exchange);
  expect(box.querySelector("[role=alert]")!.textContent).toContain("Only text is accepted");
  button("Send it again").click();
  expect(actions.retry).toHaveBeenCalledWith(exchange);
});

test("steps of other agents are folded, and lead to their tasks", async () => {
  const exchange = after({
    artifactUpdate: {
      taskId: "t",
      artifact: {
        artifactId: "s", parts: [{ data: { agent: "units", content: "8 **km**" } }],
        metadata: { "x-arbiter.sub_agent_response": true, "x-arbiter.task_id": "t2" },
      },
    },
  });
  await show(exchange);
  const details = box.querySelector("details")!;
  expect([details.open, details.querySelector("summary")!.textContent, details.querySelector("a")!.getAttribute("href")])
    .toEqual([false, "1 step: units", "/console/tasks/units/t2"]);
  expect(details.querySelector("strong + *, .md strong")).not.toBeNull();
});

test("several artifacts are side by side, or in tabs", async () => {
  const chunk = (id: string): StreamResponse => ({ artifactUpdate: { taskId: "t", artifact: { artifactId: id, name: id, parts: [{ text: `# ${id}` }] } } });
  await show(after(chunk("one"), chunk("two")));
  expect(box.querySelectorAll(".artifact-columns > .artifact")).toHaveLength(2);
  await act(() => button("Tabs").click());
  expect([...box.querySelectorAll("[role=tab]")].map((tab) => tab.textContent)).toEqual(["one", "two"]);
  await act(() => box.querySelectorAll<HTMLElement>("[role=tab]")[1]!.click());
  expect(box.querySelector("[role=tabpanel]")!.textContent).toContain("two");
});
