// The tasks that an agent elsewhere lists, page by page.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { agentList } from "../../api/agents.ts";
import { session } from "../../api/session.ts";
import type { Agent, Session } from "../../api/types.ts";
import { links, navigate } from "../../router.ts";
import TasksPage from "./page.tsx";

function agentOf(id: string): Agent {
  return { id, name: `Agent ${id}`, kind: "remote", url: `/console/remote/${id}`, version: "1.0", state: "ready" } as Agent;
}

/** A page of two: its rows are named after the agent and the page. */
function pageOf(agent: string, token: string): Response {
  const name = `${agent} ${token || "first"}`;
  const tasks = [{ id: name, contextId: "c", status: { state: "TASK_STATE_COMPLETED" }, history: [{ messageId: "m", role: "ROLE_USER", parts: [{ text: name }] }] }];
  return Response.json({ jsonrpc: "2.0", id: 1, result: { tasks, nextPageToken: token ? "" : "second", totalSize: 2 } }, { headers: { "Content-Type": "application/json" } });
}

let box: HTMLElement;
let reply: (agent: string, token: string) => Response | Promise<Response> = pageOf;

beforeEach(() => {
  reply = pageOf;
  session.value = { server: {}, features: ["agents"] } as unknown as Session;
  agentList.value = { agents: [agentOf("a"), agentOf("b")], sources: [] };
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => reply(url.at(-1)!, JSON.parse(String(init.body)).params.pageToken ?? ""));
  box = document.body.appendChild(document.createElement("div"));
});

afterEach(() => {
  act(() => render(null, box));
  box.remove();
  session.value = null;
  agentList.value = null;
  vi.unstubAllGlobals();
});

async function open(agent: string): Promise<void> {
  navigate(links.tasks({ agent }));
  await act(() => render(<TasksPage />, box));
}

function titles(): string[] {
  return [...box.querySelectorAll(".task-row-title a")].map((link) => link.textContent);
}

async function shows(...rows: string[]): Promise<void> {
  await vi.waitFor(() => expect(titles()).toEqual(rows));
}

async function press(label: string): Promise<void> {
  await act(() => [...box.querySelectorAll("button")].find((button) => button.textContent === label)!.click());
}

test("a page that comes late is not added to the list of another agent", async () => {
  let answer: () => void = () => undefined;
  const isAnswered = new Promise<void>((resolve) => (answer = resolve));
  reply = async (agent, token) => {
    if (agent === "a" && token) await isAnswered;
    return pageOf(agent, token);
  };
  await open("a");
  await shows("a first");
  await press("Read more");
  await open("b");
  await shows("b first");
  answer();
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(titles()).toEqual(["b first"]);
});

test("a page that cannot be read leaves the rows before it, and is read when one tries again", async () => {
  await open("a");
  await shows("a first");
  reply = () => Promise.reject(new TypeError("Failed to fetch"));
  await press("Read more");
  await vi.waitFor(() => expect(box.textContent).toContain("The server does not answer."));
  expect(titles()).toEqual(["a first"]);
  reply = pageOf;
  await press("Try again");
  await shows("a first", "a second");
  expect(box.textContent).not.toContain("The server does not answer.");
});

test("an agent that cannot be asked says why, and not that it has no tasks", async () => {
  reply = () => Response.json({ jsonrpc: "2.0", id: 1, error: { code: -32603, message: "connection refused" } }, { headers: { "Content-Type": "application/json" } });
  await open("a");
  await vi.waitFor(() => expect(box.textContent).toContain("connection refused"));
  expect(box.textContent).not.toContain("lists");
  reply = pageOf;
  await press("Try again");
  await shows("a first");
});
