import { expect, test } from "vitest";
import { effect } from "../signals.ts";
import { cursorAfter, FIRST_PAUSE_MS, LONGEST_PAUSE_MS, PageStream, pauseBefore, SILENCE_MS } from "./stream.ts";

/** A server of the contract, in memory: streams that the test feeds and breaks, and what was posted. */
class FakeServer {
  streams: { send: (frame: object | string) => void; break: () => void; isAborted: () => boolean }[] = [];
  posts: { url: string; body: Record<string, unknown> }[] = [];
  timers: { callback: () => void; milliseconds: number; isCleared: boolean }[] = [];
  sessions = 0;
  time = 1_000_000;
  streamStatus = 200;
  openStatus = 200;
  random = 1;
  /** What happens when the session is read. */
  onSession = () => {};

  readonly page = new PageStream({
    request: async (method, url, body, options) => {
      if (method === "POST") {
        this.posts.push({ url, body: body as Record<string, unknown> });
        return new Response("{}", { status: this.openStatus });
      }
      if (this.streamStatus !== 200) return new Response("{}", { status: this.streamStatus });
      return this.begin(options!.signal!);
    },
    refreshSession: async () => {
      this.sessions++;
      await Promise.resolve();
      this.onSession();
    },
    setTimer: (callback, milliseconds) => {
      const timer = { callback, milliseconds, isCleared: false };
      this.timers.push(timer);
      return timer;
    },
    clearTimer: (timer) => {
      if (timer) (timer as { isCleared: boolean }).isCleared = true;
    },
    now: () => this.time,
    random: () => this.random,
  });

  private begin(signal: AbortSignal): Response {
    let control: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (control = controller) });
    const encoder = new TextEncoder();
    this.streams.push({
      send: (frame) => control.enqueue(encoder.encode(typeof frame === "string" ? frame : `data: ${JSON.stringify(frame)}\n\n`)),
      break: () => control.error(new TypeError("network error")),
      isAborted: () => signal.aborted,
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }

  get opened() {
    return this.posts.filter((post) => post.url.endsWith("/open"));
  }

  /** Run the timers that are due at once: all that were set with this pause. */
  fire(milliseconds: number): void {
    for (const timer of this.timers.filter((each) => !each.isCleared && each.milliseconds === milliseconds)) {
      timer.isCleared = true;
      timer.callback();
    }
  }
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 5));
const REQUEST = { jsonrpc: "2.0", id: 1, method: "SubscribeToTask", params: { id: "t" } } as const;
const event = (channel: unknown, id: number) => ({ channel, data: { id, response: { jsonrpc: "2.0", id: 1, result: {} } } });

async function connected(server: FakeServer, page: string): Promise<void> {
  await settle();
  server.streams.at(-1)!.send({ page });
  await settle();
}

test("channels are opened when the stream has named its page, and get their own frames only", async () => {
  const server = new FakeServer();
  const seen: unknown[] = [];
  server.page.open({ kind: "approvals" }, { onData: (data) => seen.push(["approvals", data.waiting]) });
  server.page.open({ kind: "tree", task: "t", agent: "a" }, { onData: (data, isFirst) => seen.push(["tree", data.root, isFirst]) });
  expect(server.posts).toEqual([]);
  await connected(server, "p-1");
  expect(server.posts).toEqual([
    { url: "/console/api/stream/p-1/open", body: { channel: "c1", kind: "approvals" } },
    { url: "/console/api/stream/p-1/open", body: { channel: "c2", kind: "tree", task: "t", agent: "a" } },
  ]);
  const [stream] = server.streams;
  stream!.send({ channel: "c2", data: { root: "one" } });
  stream!.send({ channel: "c1", data: { waiting: 2 } });
  stream!.send({ channel: "c2", data: { root: "two" } });
  stream!.send({ channel: "c9", data: {} });
  await settle();
  expect(seen).toEqual([["tree", "one", true], ["approvals", 2], ["tree", "two", false]]);
  expect(server.page.connection.value).toEqual({ state: "connected", since: 1_000_000 });
});

test("after a lost connection every channel is opened again after the last event that it has had", async () => {
  const server = new FakeServer();
  const numbers: (number | null)[] = [];
  server.page.open({ kind: "a2a", url: "/x", request: REQUEST }, { cursor: 3, onData: (data) => numbers.push(data.id) });
  server.page.open({ kind: "task_log", task: "t", agent: "a" }, { onData: () => undefined });
  await connected(server, "p-1");
  expect(server.opened.map((post) => post.body["after"])).toEqual([3, undefined]);
  server.streams[0]!.send(event("c1", 4));
  server.streams[0]!.send(event("c1", 5));
  server.streams[0]!.send({ channel: "c2", data: { events: [{ seq: 8 }, { seq: 9 }], task: {} } });
  await settle();
  server.time += 500;
  server.streams[0]!.break();
  await settle();
  expect(server.page.connection.value).toEqual({ state: "reconnecting", since: 1_000_500, retryAt: 1_000_500 + FIRST_PAUSE_MS });

  server.fire(FIRST_PAUSE_MS);
  await connected(server, "p-2");
  expect(server.opened.slice(2)).toEqual([
    { url: "/console/api/stream/p-2/open", body: { channel: "c3", kind: "a2a", url: "/x", request: REQUEST, after: 5 } },
    { url: "/console/api/stream/p-2/open", body: { channel: "c4", kind: "task_log", task: "t", agent: "a", after: 9 } },
  ]);
  server.streams[1]!.send(event("c1", 99)); // the name of the former connection
  server.streams[1]!.send(event("c3", 6));
  await settle();
  expect(numbers).toEqual([4, 5, 6]);
  expect(server.sessions).toBe(1); // the server may have been replaced
});

test("a channel that is opened because the connection is back is opened once", async () => {
  const server = new FakeServer();
  server.page.connect();
  await connected(server, "p-1");
  server.streams[0]!.break();
  await settle();
  let isOpen = false;
  effect(() => {
    if (server.page.connection.value.state !== "connected" || isOpen) return;
    isOpen = true;
    server.page.open({ kind: "approvals" }, { onData: () => undefined });
  });
  server.fire(FIRST_PAUSE_MS);
  await connected(server, "p-2");
  expect(server.opened.map((post) => post.body["channel"])).toEqual(["c1"]);
});

test("what is closed because the session is another one is not opened again", async () => {
  const server = new FakeServer();
  const channel = server.page.open({ kind: "a2a", url: "/x", request: REQUEST }, { onData: () => undefined });
  await connected(server, "p-1");
  server.onSession = () => channel.close();
  server.streams[0]!.break();
  await settle();
  server.fire(FIRST_PAUSE_MS);
  await connected(server, "p-2");
  expect(server.opened.map((post) => post.url)).toEqual(["/console/api/stream/p-1/open"]);
});

test("nothing is opened before the session was read", async () => {
  const server = new FakeServer();
  server.page.open({ kind: "approvals" }, { onData: () => undefined });
  await connected(server, "p-1");
  server.onSession = () => {
    throw new Error("not now");
  };
  server.streams[0]!.break();
  await settle();
  server.fire(FIRST_PAUSE_MS);
  await connected(server, "p-2");
  expect([server.opened.length, server.page.connection.value.state]).toEqual([1, "reconnecting"]);
});

test("the pauses grow while the server is away, and begin anew once it has answered", async () => {
  const server = new FakeServer();
  server.streamStatus = 503;
  server.page.open({ kind: "approvals" }, { onData: () => undefined });
  for (const pause of [500, 1000, 2000, 4000]) {
    await settle();
    expect(server.page.connection.value).toMatchObject({ state: "reconnecting", since: 1_000_000, retryAt: 1_000_000 + pause });
    server.fire(pause);
  }
  server.streamStatus = 200;
  await settle();
  server.fire(8000);
  await connected(server, "p-1");
  server.streams[0]!.send({ channel: "c1", data: { waiting: 1 } });
  await settle();
  server.streams[0]!.break();
  await settle();
  expect(server.page.connection.value).toMatchObject({ retryAt: 1_000_000 + FIRST_PAUSE_MS });
});

test("half of a pause is random, and there is a longest one", () => {
  expect([0, 1, 2].map((attempt) => pauseBefore(attempt, 0))).toEqual([250, 500, 1000]);
  expect([0, 1, 2].map((attempt) => pauseBefore(attempt, 1))).toEqual([500, 1000, 2000]);
  expect(pauseBefore(500, 1)).toBe(LONGEST_PAUSE_MS);
});

test("a stream that is silent for too long is given up", async () => {
  const server = new FakeServer();
  server.page.open({ kind: "approvals" }, { onData: () => undefined });
  await connected(server, "p-1");
  server.streams[0]!.send(": ping\n\n");
  await settle();
  const watching = server.timers.filter((timer) => timer.milliseconds === SILENCE_MS);
  expect(watching.map((timer) => timer.isCleared)).toEqual([...Array(watching.length - 1).fill(true), false]);
  server.fire(SILENCE_MS);
  expect(server.page.connection.value.state).toBe("reconnecting");
  expect(server.streams[0]!.isAborted()).toBe(true);
});

test("a failure that passes opens the channel again after a pause; a final one is told once", async () => {
  const server = new FakeServer();
  const errors: string[] = [];
  server.page.open({ kind: "a2a", url: "/x", request: REQUEST }, { onData: () => undefined, onError: (error) => errors.push(error.message) });
  await connected(server, "p-1");
  server.streams[0]!.send(event("c1", 7));
  server.streams[0]!.send({ channel: "c1", error: { code: "unavailable", message: "busy" }, is_final: false });
  await settle();
  expect(server.opened).toHaveLength(1);
  server.fire(FIRST_PAUSE_MS);
  await settle();
  expect(server.opened[1]!.body).toMatchObject({ channel: "c2", after: 7 });
  server.streams[0]!.send({ channel: "c2", error: { code: "not_found", message: "There is no such task" }, is_final: true });
  server.streams[0]!.send({ channel: "c2", error: { code: "not_found", message: "again" } });
  await settle();
  expect(errors).toEqual(["There is no such task"]);
  server.streams[0]!.break();
  await settle();
  server.fire(FIRST_PAUSE_MS);
  await connected(server, "p-2");
  expect(server.opened).toHaveLength(2); // the channel is gone
});

test("a channel that ended or was closed stays closed", async () => {
  const server = new FakeServer();
  let ends = 0;
  server.page.open({ kind: "check", check: "k" }, { onData: () => undefined, onEnd: () => ends++ });
  const closed = server.page.open({ kind: "approvals" }, { onData: () => expect.unreachable() });
  await connected(server, "p-1");
  server.streams[0]!.send({ channel: "c1", end: true });
  closed.close();
  closed.close();
  server.streams[0]!.send({ channel: "c2", data: { waiting: 1 } });
  await settle();
  expect(ends).toBe(1);
  expect(server.posts.at(-1)).toEqual({ url: "/console/api/stream/p-1/close", body: { channel: "c2" } });
  expect(server.posts.filter((post) => post.url.endsWith("/close"))).toHaveLength(1);
});

test("a server that has forgotten the page is connected to again", async () => {
  const server = new FakeServer();
  await (server.page.open({ kind: "approvals" }, { onData: () => undefined }), connected(server, "p-1"));
  server.openStatus = 404;
  server.page.open({ kind: "check", check: "k" }, { onData: () => undefined });
  await settle();
  expect(server.page.connection.value.state).toBe("reconnecting");
  server.openStatus = 200;
  server.fire(FIRST_PAUSE_MS);
  await connected(server, "p-2");
  expect(server.opened.slice(2).map((post) => post.body["kind"])).toEqual(["approvals", "check"]);
});

test("a refused stream reads the session again before the next attempt", async () => {
  const server = new FakeServer();
  server.streamStatus = 403;
  server.page.connect();
  await settle();
  expect(server.sessions).toBe(1);
  expect(server.page.connection.value.state).toBe("reconnecting");
});

test("only numbered events move the cursor", () => {
  expect(cursorAfter("a2a", { id: null }, 4)).toBe(4);
  expect(cursorAfter("task_log", { events: [] }, 4)).toBe(4);
  expect(cursorAfter("wire", { lines: [{ number: 9 }] }, null)).toBe(null);
});
