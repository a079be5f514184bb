// The page of a task elsewhere: what it does when the events end, and what it keeps of them.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AgentError } from "../../a2a/client.ts";
import type { StreamResponse, Task, TaskState } from "../../a2a/types.ts";
import type { Agent } from "../../api/types.ts";
import { RemoteTask, seenEvent } from "./remote_task.tsx";

interface Handlers {
  onEvent: (event: StreamResponse, number: number | null) => void;
  onEnd: () => void;
  onError: (error: Error) => void;
}

/** The task as the agent has it, what the page reads it with, and its streams. */
const agent = vi.hoisted(() => ({ state: "" as TaskState, getTask: vi.fn(), streams: [] as Handlers[] }));

vi.mock(import("../../a2a/client.ts"), async (original) => ({
  ...(await original()),
  getTask: agent.getTask,
  subscribe: (_url, _id, handlers) => {
    agent.streams.push(handlers as Handlers);
    return { cursor: null, close: () => undefined };
  },
}));

const AGENT = { id: "r", name: "Far", kind: "remote", url: "/console/remote/r", version: "1.0" } as Agent;
const WORKING: StreamResponse = { statusUpdate: { taskId: "t", contextId: "c", status: { state: "TASK_STATE_WORKING" } } };

function task(): Task {
  return { id: "t", contextId: "c", status: { state: agent.state } };
}

let box: HTMLElement;

beforeEach(async () => {
  vi.useFakeTimers();
  agent.state = "TASK_STATE_WORKING";
  agent.getTask.mockReset().mockImplementation(async () => task());
  agent.streams.length = 0;
  box = document.body.appendChild(document.createElement("div"));
  act(() => render(<RemoteTask agent={AGENT} id="t" />, box));
  await pass(100);
});

afterEach(() => {
  act(() => render(null, box));
  box.remove();
  vi.useRealTimers();
});

async function pass(milliseconds: number): Promise<void> {
  await act(async () => void (await vi.advanceTimersByTimeAsync(milliseconds)));
}

function state(): string | undefined {
  return box.querySelector(".badge")?.textContent;
}

function numbers(): string[] {
  return [...box.querySelectorAll(".event-seq")].map((cell) => cell.textContent);
}

function press(label: string): void {
  [...box.querySelectorAll("button")].find((button) => button.textContent === label)!.click();
}

test.each(["onEnd", "onError"] as const)("is read again when its events come to %s before it has ended", async (how) => {
  expect(state()).toBe("Working");
  agent.state = "TASK_STATE_COMPLETED"; // while the connection was lost
  agent.streams[0]![how](new AgentError({ code: -32004, message: "The task has ended" }));
  await pass(10_000);
  expect(state()).toBe("Completed");
  expect(agent.getTask).toHaveBeenCalledTimes(2);
});

test("is read no more once it has ended", async () => {
  agent.streams[0]!.onEvent({ task: { ...task(), status: { state: "TASK_STATE_COMPLETED" } } }, null);
  agent.streams[0]!.onEnd();
  await pass(60_000);
  expect(state()).toBe("Completed");
  expect(agent.getTask).toHaveBeenCalledTimes(1);
});

test("is read again until the agent is back", async () => {
  agent.getTask.mockRejectedValueOnce(new Error("connection refused"));
  agent.streams[0]!.onEnd();
  await pass(6_000);
  expect(box.textContent).toContain("connection refused");
  await pass(6_000);
  expect(box.textContent).not.toContain("connection refused");
});

test("goes on counting its events when it is read again", async () => {
  agent.streams[0]!.onEvent({ task: task() }, null); // known already
  agent.streams[0]!.onEvent(WORKING, null);
  agent.streams[0]!.onEvent(WORKING, null);
  await pass(100);
  expect(numbers()).toEqual(["1", "2"]);
  press("Read again");
  await pass(100);
  agent.streams[1]!.onEvent({ task: task() }, null);
  agent.streams[1]!.onEvent(WORKING, null);
  await pass(100);
  expect(numbers()).toEqual(["1", "2", "3"]);
});

test("a row of an event has its size and the beginning of its text, and does not keep the event", () => {
  const text = "x".repeat(1_000_000);
  const event: StreamResponse = { artifactUpdate: { taskId: "t", contextId: "c", artifact: { artifactId: "a", parts: [{ text }] } } };
  const row = seenEvent(event, 7, Date.parse("2026-01-01T00:00:00Z"), null);
  expect(row).toEqual({
    seq: 7, kind: "artifact", at: "2026-01-01T00:00:00.000Z", size: JSON.stringify(event).length, pause_ms: null, summary: "x".repeat(500),
    is_streamed: true, body: null,
  });
});
