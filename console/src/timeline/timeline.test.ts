// The log of a task in pages, with gaps and live events, and the task at every event.

import { describe, expect, it } from "vitest";
import { TaskFold } from "../a2a/fold.ts";
import type { JsonObject, JsonValue } from "../a2a/types.ts";
import type { LogEvent, TaskLog } from "../api/types.ts";
import { applyEvent } from "./events.ts";
import { EventLog, LogLoader, missedBy, passesFilter } from "./log.ts";
import { ScrubHistory } from "./scrub.ts";
import { cpuTime } from "../testing/cpu_time.ts";

function event(seq: number, kind = "artifact", body: JsonObject | null = {}, more: Partial<LogEvent> = {}): LogEvent {
  return { seq, kind, at: null, size: 10, pause_ms: 1, summary: "", is_streamed: kind === "artifact", body, ...more };
}

function chunks(from: number, to: number): LogEvent[] {
  return Array.from({ length: to - from + 1 }, (_, index) => event(from + index));
}

function page(from: number, to: number, last: number, oldest = 1): TaskLog {
  return { events: chunks(from, to), last, oldest };
}

describe("the log of a task", () => {
  it("knows which events are missing between two pages", () => {
    const log = new EventLog();
    log.addPage(0, page(1, 500, 1600));
    log.addPage(1000, page(1001, 1500, 1600));
    expect(log.firstMissing(1, 1600)).toBe(501);
    expect(log.firstMissing(1001, 1600)).toBe(1501);
    expect(log.isComplete).toBe(false);
    expect([log.length, log.loaded]).toEqual([1600, 1000]);
  });

  it("takes numbers that a page skips as not kept, and asks no more for them", () => {
    const log = new EventLog();
    log.addPage(0, { events: [event(3), event(5)], last: 6, oldest: 2 });
    expect([2, 3, 4, 5].map((seq) => log.get(seq)?.seq ?? log.get(seq))).toEqual([null, 3, null, 5]);
    expect(log.firstMissing(1, 6)).toBe(6);
    log.addPage(5, { events: [event(6)], last: 6, oldest: 2 });
    expect(log.isComplete).toBe(true);
  });

  it("drops live events that are here already, and grows at its end", () => {
    const log = new EventLog();
    log.addPage(0, page(1, 3, 3));
    log.addEvents([event(3), event(4, "status")]);
    expect([log.last, log.loaded, log.kinds.get("artifact"), log.kinds.get("status")]).toEqual([4, 4, 3, 1]);
  });

  it("loads what is looked at first, then the rest, each event once", async () => {
    const log = new EventLog();
    const asked: number[] = [];
    log.last = 1200;
    const fetchPage = async (after: number, limit: number): Promise<TaskLog> => {
      asked.push(after);
      if (asked.length === 1) loader.want(900, 950);
      return page(after + 1, Math.min(after + limit, 1200), 1200);
    };
    const loader = new LogLoader(log, fetchPage, () => undefined);
    await loader.run();
    expect(asked).toEqual([0, 899, 500]);
    expect(log.isComplete).toBe(true);
    expect(log.loaded).toBe(1200);
  });

  it("stops in the background when the browser holds enough, but still loads what is looked at", async () => {
    const log = new EventLog();
    log.last = 3000;
    const loader = new LogLoader(log, async (after, limit) => page(after + 1, after + limit, 3000), () => undefined, 4_000);
    await loader.run();
    expect(log.loaded).toBe(500);
    loader.want(2001, 2010);
    await new Promise((resolve) => setTimeout(resolve));
    expect(log.get(2001)?.seq).toBe(2001);
    expect(log.get(1500)).toBeUndefined();
  });

  it("reports a failed page and goes on when it is asked again", async () => {
    const log = new EventLog();
    log.last = 10;
    let isDown = true;
    const fetchPage = async (): Promise<TaskLog> => {
      if (isDown) throw new Error("down");
      return page(1, 10, 10);
    };
    const loader = new LogLoader(log, fetchPage, () => undefined);
    await loader.run();
    expect(loader.error).toEqual(new Error("down"));
    isDown = false;
    await loader.run();
    expect([loader.error, log.isComplete]).toEqual([null, true]);
  });

  it("knows what a client missed: what callers see after the number", () => {
    const log = new EventLog();
    log.addEvents([event(1, "created"), event(2), event(3, "step"), event(4), event(5, "status", {}, { is_streamed: true })]);
    expect(missedBy(log, 2)).toEqual({ events: 2, bytes: 20 });
    const filter = { hidden: new Set<string>(), missedAfter: 2 };
    expect(log.select((each) => passesFilter(each, filter))).toEqual([4, 5]);
    expect(log.select((each) => passesFilter(each, { hidden: new Set(["step"]), missedAfter: null }))).toEqual([1, 2, 4, 5]);
  });
});

/** Numbers that look random and are the same in every run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function randomLog(seed: number, length: number): LogEvent[] {
  const random = randomFrom(seed);
  const ids = { task_id: "t", context_id: "c" };
  const message = (role: string): JsonObject => ({ type: "message", message_id: `m${random(1e9)}`, role, parts: parts() });
  const parts = (): JsonValue[] =>
    Array.from({ length: 1 + random(3) }, (): JsonObject => {
      const which = random(6);
      if (which === 0) return { type: "data", data: { n: random(100) } };
      if (which === 1) return { type: "url", url: "https://x.example/", media_type: "image/png", filename: "x.png" };
      if (which === 2) return { type: "text", text: "" };
      return { type: "text", text: `w${random(100)} ` };
    });
  const events = [event(1, "created", { type: "created", ...ids, status: { state: "submitted" } })];
  for (let seq = 2; seq <= length; seq++) {
    const which = random(12);
    if (which === 0) {
      events.push(event(seq, "message-added", { type: "message-added", ...ids, message: message("user") }));
    } else if (which <= 2) {
      const status = which === 1 ? { state: "working" } : { state: "working", message: message("agent") };
      events.push(event(seq, "status", { type: "status", ...ids, status, metadata: { [`k${random(4)}`]: random(9) } }));
    } else if (which === 3) {
      events.push(event(seq, "step", null));
    } else {
      const artifact: JsonObject = { artifact_id: `a${random(3)}`, parts: parts() };
      if (random(5) === 0) artifact.name = `name ${random(9)}`;
      events.push(event(seq, "artifact", { type: "artifact", ...ids, artifact, append: random(9) > 0 }));
    }
  }
  return events;
}

describe("the task as it was", () => {
  it.each([1, 2, 3])("equals the fold of all events up to every number, in any order of looking (seed %i)", (seed) => {
    const events = randomLog(seed, 700);
    const log = new EventLog();
    log.addEvents(events);
    const history = new ScrubHistory(log);
    const random = randomFrom(seed + 100);
    const whole = new TaskFold();
    const expected = events.map((each) => {
      applyEvent(whole, each);
      return JSON.stringify(whole.task());
    });
    const order = events.map((_, index) => index).sort(() => random(3) - 1);
    for (const index of order) expect(JSON.stringify(history.at(index + 1))).toBe(expected[index]);
    expect(history.size).toBeGreaterThan(0);
  });

  it("leaves bodies that are not here to the server, and goes on from what it said", () => {
    const events = randomLog(7, 40);
    const whole = new TaskFold();
    const tasks = events.map((each) => {
      applyEvent(whole, each);
      return whole.task()!;
    });
    const long = { ...events[19]!, kind: "artifact", body: null };
    const log = new EventLog();
    log.addEvents(events.map((each, index) => (index === 19 ? long : each)));
    const history = new ScrubHistory(log);
    expect(history.at(19)).toEqual(tasks[18]);
    expect(history.at(20)).toBeNull();
    expect(history.at(40)).toBeNull();
    history.learn(20, tasks[19]!);
    expect(history.at(20)).toEqual(tasks[19]);
    expect(history.at(40)).toEqual(tasks[39]);
  });

  it("does not know a task whose first events are not kept", () => {
    const log = new EventLog();
    log.addPage(99, { events: randomLog(3, 120).slice(99), last: 120, oldest: 100 });
    expect(new ScrubHistory(log).at(110)).toBeNull();
  });

  it("finds a number among 16,000 chunks in well under a frame", () => {
    const log = new EventLog();
    const first = event(1, "created", { type: "created", task_id: "t", context_id: "c", status: { state: "working" } });
    const rest = Array.from({ length: 15_999 }, (_, index) =>
      event(index + 2, "artifact", { artifact: { artifact_id: "a", parts: [{ type: "text", text: "word " }] }, append: index > 0 }),
    );
    log.addEvents([first, ...rest]);
    const history = new ScrubHistory(log);
    history.at(16_000);
    const began = cpuTime();
    for (let n = 1; n <= 16_000; n += 100) history.at(n);
    expect((cpuTime() - began) / 160).toBeLessThan(8);
    expect(history.at(8_001)?.artifacts?.[0]?.parts).toEqual([{ text: "word ".repeat(8_000) }]);
    expect(history.size).toBeGreaterThan(50);
  });

  it("keeps snapshots in proportion to the log when parts cannot be joined", () => {
    const log = new EventLog();
    const first = event(1, "created", { type: "created", task_id: "t", context_id: "c", status: { state: "working" } });
    const rest = Array.from({ length: 8_000 }, (_, index) =>
      event(index + 2, "artifact", { artifact: { artifact_id: "a", parts: [{ type: "data", data: index }] }, append: true }),
    );
    log.addEvents([first, ...rest]);
    const history = new ScrubHistory(log);
    expect(history.at(8_001)?.artifacts?.[0]?.parts).toHaveLength(8_000);
    expect(history.size).toBeLessThan(10);
  });
});
