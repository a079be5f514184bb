// Following an exchange through lost connections, early ends, refusals and agents that do not stream.

import { describe, expect, test } from "vitest";
import { AgentError, UNSUPPORTED_OPERATION, type StreamHandlers } from "../../a2a/client.ts";
import { ApiError } from "../../api/http.ts";
import type { Message, StreamResponse, Task, TaskState } from "../../a2a/types.ts";
import { Exchange } from "./exchange.ts";
import { Follower, UNKNOWN_DELIVERY, type Environment } from "./following.ts";

const MESSAGE: Message = { messageId: "m", role: "ROLE_USER", parts: [{ text: "hello" }] };
const OWN = { url: "/agents/a", kind: "own" as const, streams: true, state: "ready" as const };
const REMOTE = { url: "/console/remote/r", kind: "remote" as const, streams: true, state: "ready" as const };

const chunk = (text: string): StreamResponse => ({ artifactUpdate: { taskId: "t", artifact: { artifactId: "a", parts: [{ text }] }, append: true } });
const state = (name: string): StreamResponse => ({ statusUpdate: { taskId: "t", status: { state: `TASK_STATE_${name}` as TaskState } } });
const task = (name: string, text: string): Task => ({
  id: "t", status: { state: `TASK_STATE_${name}` as TaskState }, artifacts: [{ artifactId: "a", parts: [{ text }] }], history: [MESSAGE],
});

interface Opened extends StreamHandlers {
  what: string;
  isClosed: boolean;
}

/** An agent that does what a test says, and records what it was asked. */
class FakeAgent implements Environment {
  readonly opened: Opened[] = [];
  readonly tasks: (Task | Error)[] = [];
  replies: (Task | Error)[] = [];
  time = 1_000;
  waits = 0;

  private open(what: string, handlers: StreamHandlers): { close(): void } {
    const opened: Opened = { ...handlers, what, isClosed: false };
    this.opened.push(opened);
    return { close: () => (opened.isClosed = true) };
  }
  sendStreaming: Environment["sendStreaming"] = (_, { message }, handlers) => this.open(`send ${message.messageId}`, handlers);
  subscribe: Environment["subscribe"] = (_, id, handlers) => this.open(`subscribe ${id} after ${handlers.after}`, handlers);
  sendMessage: Environment["sendMessage"] = async () => {
    const next = this.replies.shift()!;
    if (next instanceof Error) throw next;
    return { task: next };
  };
  getTask: Environment["getTask"] = async () => {
    const next = this.tasks.shift()!;
    if (next instanceof Error) throw next;
    return next;
  };
  onChange = () => undefined;
  onEvent = () => undefined;
  wait = async () => void this.waits++;
  now = () => (this.time += 1_000);

  get last(): Opened {
    return this.opened.at(-1)!;
  }
  get calls(): string[] {
    return this.opened.map((each) => each.what);
  }
}

function begin(agent: typeof OWN | typeof REMOTE = OWN) {
  const fake = new FakeAgent();
  const exchange = new Exchange(MESSAGE);
  const follower = new Follower(exchange, agent, fake);
  return { fake, exchange, follower };
}

const text = (exchange: Exchange) => exchange.artifactRecords.map((each) => each.text).join();
const connection = (exchange: Exchange) => exchange.entries.flatMap((entry) => (entry.kind === "connection" ? [entry.text] : []));
const settled = () => new Promise((resolve) => setTimeout(resolve));

describe("a lost connection", () => {
  test("is followed after the last event when it is back, and the conversation says so", () => {
    const { fake, exchange, follower } = begin();
    follower.send(MESSAGE);
    fake.last.onEvent(state("WORKING"), 4);
    fake.last.onEvent(chunk("Par"), 5);
    follower.lose();
    expect([exchange.phase, fake.last.isClosed, connection(exchange).length]).toEqual(["cut", true, 1]);
    follower.lose();
    expect(fake.opened).toHaveLength(1);
    follower.regain();
    expect(fake.calls).toEqual(["send m", "subscribe t after 5"]);
    fake.last.onEvent(chunk("is"), 6);
    fake.last.onEvent(state("COMPLETED"), 7);
    fake.last.onEnd!();
    expect([text(exchange), exchange.phase]).toEqual(["Paris", "ended"]);
    expect(connection(exchange)).toEqual(["The connection was lost for 1.0 s. It went on after event 5; nothing is missing."]);
  });

  test("before the first event leaves the message to the channel at an agent of this server, which knows its id", () => {
    const { fake, exchange, follower } = begin();
    follower.send(MESSAGE);
    follower.lose();
    expect([exchange.phase, fake.last.isClosed]).toEqual(["cut", false]);
    fake.last.onEvent(state("WORKING"), 2);
    expect(exchange.phase).toBe("running");
  });

  test("before the first event of an agent elsewhere is told, and nothing is sent twice", () => {
    const { fake, exchange, follower } = begin(REMOTE);
    follower.send(MESSAGE);
    follower.lose();
    follower.regain();
    expect([exchange.phase, exchange.error, fake.last.isClosed, fake.opened.length]).toEqual(["unsent", UNKNOWN_DELIVERY, true, 1]);
  });

  test("before a credential was received asks for it again, and nothing has kept it", () => {
    const { fake, exchange, follower } = begin(REMOTE);
    exchange.take(state("AUTH_REQUIRED"), null);
    const answer = { ...MESSAGE, messageId: "m2", taskId: "t", metadata: { credential: "s3cret" } };
    follower.send(answer);
    expect(fake.calls).toEqual(["send m2"]);
    follower.lose();
    expect([exchange.phase, exchange.error]).toEqual(["waiting", UNKNOWN_DELIVERY]);
    const again = new Follower(exchange, OWN, fake);
    again.send({ ...answer, messageId: "m3" });
    fake.last.onError!(new ApiError("forbidden", "No.", 403));
    expect([exchange.phase, exchange.error]).toEqual(["waiting", "No."]);
    expect(JSON.stringify(exchange.entries)).not.toContain("s3cret");
  });

  test("of a stream without numbers begins with the task as it is, and doubles nothing", () => {
    const { fake, exchange, follower } = begin(REMOTE);
    follower.send(MESSAGE);
    fake.last.onEvent(chunk("Par"), null);
    follower.lose();
    follower.regain();
    expect(fake.calls.at(-1)).toBe("subscribe t after null");
    fake.last.onEvent({ task: task("WORKING", "Paris") }, null);
    fake.last.onEvent(chunk(" is"), null);
    expect(text(exchange)).toBe("Paris is");
    expect(connection(exchange)[0]).toContain("The task was read again");
  });

  test("during which the task ended, with all events received, ends it", async () => {
    const { fake, exchange, follower } = begin();
    follower.send(MESSAGE);
    fake.last.onEvent(chunk("Paris"), 5);
    follower.lose();
    follower.regain();
    fake.tasks.push(task("COMPLETED", "Paris"));
    fake.last.onEnd!();
    await settled();
    expect([text(exchange), exchange.phase]).toEqual(["Paris", "ended"]);
  });
});

describe("a server that is stopped", () => {
  test("is followed after the last event when it is back, and a task that was read meanwhile doubles nothing", async () => {
    const { fake, exchange, follower } = begin();
    follower.send(MESSAGE);
    fake.last.onEvent(chunk("Par"), 5);
    for (const read of [new ApiError("offline", "gone"), task("WORKING", "Pari")]) {
      fake.tasks.push(read);
      fake.last.onError!(new AgentError({ code: -32603, message: "The server is shutting down" }));
      await settled();
      expect([fake.calls.at(-1), exchange.phase, text(exchange)]).toEqual(["subscribe t after 5", "cut", "Par"]);
    }
    fake.last.onEvent(chunk("i"), 6);
    fake.last.onEvent(chunk("s"), 7);
    expect([text(exchange), connection(exchange).length, exchange.phase]).toEqual(["Paris", 1, "running"]);
  });

  test("for too long can be followed again", async () => {
    const { fake, exchange, follower } = begin({ ...OWN, streams: false });
    fake.replies = [task("WORKING", "Par")];
    fake.tasks.push(...Array.from({ length: 13 }, () => new ApiError("offline", "gone")));
    follower.send(MESSAGE);
    await settled();
    expect([exchange.phase, exchange.error]).toEqual(["cut", "gone"]);
    fake.tasks.push(task("COMPLETED", "Paris"));
    follower.regain();
    await settled();
    expect([exchange.phase, text(exchange)]).toEqual(["ended", "Paris"]);
  });
});

test("a stream that the agent closes too early is followed again", async () => {
  const { fake, exchange, follower } = begin();
  follower.send(MESSAGE);
  fake.last.onEvent(chunk("Par"), 5);
  fake.tasks.push(task("WORKING", "Par"));
  fake.last.onEnd!();
  await settled();
  expect([fake.calls.at(-1), exchange.phase]).toEqual(["subscribe t after 5", "running"]);
});

test("an agent that does not stream is asked for the task until it is over", async () => {
  const { fake, exchange, follower } = begin({ ...OWN, streams: false });
  fake.replies = [task("WORKING", "Par")];
  fake.tasks.push(task("WORKING", "Pari"), task("COMPLETED", "Paris"));
  follower.send(MESSAGE);
  await settled();
  expect([fake.opened.length, text(exchange), exchange.phase, fake.waits]).toEqual([0, "Paris", "ended", 1]);
});

test("an agent that refuses to stream gets the message without a stream", async () => {
  const { fake, exchange, follower } = begin();
  fake.replies = [task("COMPLETED", "Paris")];
  follower.send(MESSAGE);
  fake.last.onError!(new AgentError({ code: UNSUPPORTED_OPERATION, message: "no streams" }));
  await settled();
  expect([text(exchange), exchange.phase]).toEqual(["Paris", "ended"]);
});

test("a refused message says why", () => {
  const { fake, exchange, follower } = begin();
  follower.send(MESSAGE);
  fake.last.onError!(new AgentError({ code: -32005, message: "Only text is accepted" }));
  expect([exchange.phase, exchange.error]).toEqual(["unsent", "Only text is accepted"]);
});

test("nothing arrives after closing", () => {
  const { fake, exchange, follower } = begin();
  follower.send(MESSAGE);
  follower.close();
  fake.last.onEvent(chunk("late"), 1);
  expect([text(exchange), fake.last.isClosed]).toEqual(["", true]);
});

describe("an answer", () => {
  const ANSWER: Message = { messageId: "n", role: "ROLE_USER", parts: [{ text: "Rome" }], taskId: "t" };

  function asked(agent: typeof OWN | typeof REMOTE = OWN) {
    const { fake, exchange, follower } = begin(agent);
    follower.send(MESSAGE);
    fake.last.onEvent(state("INPUT_REQUIRED"), 3);
    const second = new Follower(exchange, agent, fake);
    second.send(ANSWER);
    return { fake, exchange, follower: second };
  }

  test("that nothing has confirmed stays with its channel when the connection is lost", () => {
    const { fake, exchange, follower } = asked();
    follower.lose();
    follower.regain();
    expect([fake.calls, fake.last.isClosed, exchange.phase]).toEqual([["send m", "send n"], false, "cut"]);
    fake.last.onEvent(state("WORKING"), 5);
    follower.lose();
    follower.regain();
    expect(fake.calls.at(-1)).toBe("subscribe t after 5");
  });

  test("to an agent elsewhere that nothing has confirmed is told", () => {
    const { exchange, follower } = asked(REMOTE);
    follower.lose();
    expect([exchange.phase, exchange.error]).toEqual(["unsent", UNKNOWN_DELIVERY]);
  });

  test("that is refused leaves the question open and says why", () => {
    const { fake, exchange } = asked();
    fake.last.onError!(new AgentError({ code: -32602, message: "The date is in the past" }));
    expect([exchange.phase, exchange.error, connection(exchange)]).toEqual(["waiting", "The date is in the past", []]);
  });
});
