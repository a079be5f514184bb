// What the events of a stream add up to: nothing lost, nothing doubled, everything bounded.

import { describe, expect, test } from "vitest";
import type { Artifact, Message, Part, StreamResponse, Task, TaskState } from "../../a2a/types.ts";
import { Exchange, MAX_NOTES, MAX_PROGRESS, type Entry } from "./exchange.ts";
import { cpuTime } from "../../testing/cpu_time.ts";

const user = (text: string, more: Partial<Message> = {}): Message => ({ messageId: `u-${text}`, role: "ROLE_USER", parts: [{ text }], ...more });
const agent = (text: string): Message => ({ messageId: `a-${text}`, role: "ROLE_AGENT", parts: [{ text }] });
const status = (state: string, message?: Message): StreamResponse => ({
  statusUpdate: { taskId: "t", contextId: "c", status: { state: `TASK_STATE_${state}` as TaskState, ...(message ? { message } : {}) } },
});
const chunk = (text: string, more: { append?: boolean; id?: string; last?: boolean } = {}): StreamResponse => ({
  artifactUpdate: {
    taskId: "t", artifact: { artifactId: more.id ?? "a", parts: [{ text }] }, append: more.append ?? true, lastChunk: more.last ?? false,
  },
});
const task = (state: string, more: Partial<Task> = {}, message?: Message): Task => ({
  id: "t", contextId: "c", status: { state: `TASK_STATE_${state}` as TaskState, ...(message ? { message } : {}) }, ...more,
});
const artifact = (text: string, id = "a"): Artifact => ({ artifactId: id, parts: [{ text }] });

function after(...events: [StreamResponse, number | null][]): Exchange {
  const exchange = new Exchange(user("hello"));
  for (const [event, number] of events) exchange.take(event, number);
  return exchange;
}

/** The transcript in short. */
function shown(exchange: Exchange): string[] {
  const text = (parts: readonly Part[]) => parts.map((part) => part.text ?? JSON.stringify(part)).join("|");
  return exchange.entries.map((entry: Entry) => {
    switch (entry.kind) {
      case "user":
      case "said":
        return `${entry.kind}: ${text(entry.message.parts)}`;
      case "notes":
        return `notes: ${entry.notes.map((note) => text(note.parts)).join(", ")}`;
      case "steps":
        return `steps: ${entry.steps.map((step) => step.name).join(", ")}`;
      case "artifact":
        return `${entry.artifact.id}: ${text(entry.artifact.parts)}`;
      case "connection":
        return entry.text;
    }
  });
}

describe("a stream", () => {
  const events: [StreamResponse, number][] = [
    [{ task: task("SUBMITTED", { history: [user("hello")] }) }, 1], [status("WORKING", agent("Looking")), 2], [chunk("Par", { append: false }), 3],
    [chunk("is "), 4], [chunk("is"), 5], [chunk(" nice.", { last: true }), 6], [status("COMPLETED"), 7],
  ];

  test("becomes a transcript", () => {
    const exchange = after(...events);
    expect(shown(exchange)).toEqual(["user: hello", "notes: Looking", "a: Paris is nice."]);
    expect([exchange.phase, exchange.taskId, exchange.contextId, exchange.cursor]).toEqual(["ended", "t", "c", 7]);
    expect(exchange.artifactRecords[0]!.isOpen).toBe(false);
  });

  test("that breaks anywhere and continues from anywhere before is the same", () => {
    const whole = shown(after(...events));
    for (let cut = 1; cut <= events.length; cut++) {
      for (let back = 0; back < cut; back++) {
        const exchange = after(...events.slice(0, cut));
        const isNew = events.slice(back).map(([event, number]) => exchange.take(event, number));
        expect(shown(exchange)).toEqual(whole);
        expect(isNew.filter((each) => !each)).toHaveLength(cut - back);
        expect(exchange.phase).toBe("ended");
      }
    }
  });

  test("without numbers that breaks anywhere and continues with a snapshot is the same", () => {
    const whole = shown(after(...events));
    const all = events.map(([event]) => event);
    const texts = ["", "", "", "Par", "Paris ", "Paris is", "Paris is nice.", "Paris is nice."];
    for (let cut = 1; cut < all.length; cut++) {
      for (let seen = cut; seen < all.length; seen++) {
        const history = seen > 1 ? [user("hello"), agent("Looking")] : [user("hello")];
        const snapshot = task("WORKING", { history, artifacts: texts[seen] ? [artifact(texts[seen]!)] : [] });
        const numberless = [...all.slice(0, cut), { task: snapshot }, ...all.slice(seen)];
        expect(shown(after(...numberless.map((event): [StreamResponse, null] => [event, null])))).toEqual(whole);
      }
    }
  });

  test("with an old snapshot after newer events keeps the events", () => {
    const exchange = after([chunk("Paris is", { append: false }), null], [{ task: task("WORKING", { artifacts: [artifact("Par")] }) }, null], [chunk(" nice"), null]);
    expect(shown(exchange)).toEqual(["user: hello", "a: Paris is nice"]);
  });

  test("in which an artifact is replaced shows the new one, with another revision", () => {
    const exchange = after([chunk("old", { append: false }), 1], [chunk("new", { append: false }), 2]);
    expect([shown(exchange)[1], exchange.artifactRecords[0]!.revision]).toEqual(["a: new", 1]);
  });

  test("keeps the revision when a snapshot continues what was seen", () => {
    const exchange = after([chunk("Par", { append: false }), 1], [{ task: task("WORKING", { artifacts: [artifact("Paris")] }) }, 2]);
    expect([shown(exchange)[1], exchange.artifactRecords[0]!.revision]).toEqual(["a: Paris", 0]);
  });

  test("that ends with the text of the artifact once more shows it once", () => {
    expect(shown(after([chunk("Done.\n", { append: false }), 1], [status("COMPLETED", agent("Done.")), 2]))).toEqual(["user: hello", "a: Done.\n"]);
    expect(shown(after([status("COMPLETED", agent("Done.")), 1]))).toEqual(["user: hello", "said: Done."]);
  });

  test("of one message is a reply without a task", () => {
    const exchange = after([{ message: { ...agent("Hi"), contextId: "c" } }, null]);
    expect([shown(exchange), exchange.phase, exchange.taskId, exchange.contextId]).toEqual([["user: hello", "said: Hi"], "ended", "", "c"]);
  });
});

describe("a question", () => {
  test("waits, and stays before its answer", () => {
    const exchange = after([status("INPUT_REQUIRED", agent("Milk?")), 3]);
    expect([shown(exchange), exchange.phase]).toEqual([["user: hello"], "waiting"]);
    exchange.addUser(user("yes"));
    exchange.setPhase("sending");
    // The stream of an answer may begin with the task as it was.
    exchange.take({ task: task("INPUT_REQUIRED", { history: [user("hello")] }, agent("Milk?")) }, 4);
    expect(exchange.phase).toBe("sending");
    exchange.take(status("WORKING"), 5);
    exchange.take(chunk("White.", { append: false }), 6);
    exchange.take(status("COMPLETED"), 7);
    expect(shown(exchange)).toEqual(["user: hello", "said: Milk?", "user: yes", "a: White."]);
  });

  test("that is asked again is there twice", () => {
    const exchange = after([status("INPUT_REQUIRED", agent("Milk?")), 1]);
    exchange.addUser(user("maybe"));
    exchange.take(status("INPUT_REQUIRED", agent("Yes or no?")), 3);
    expect([shown(exchange), exchange.status?.message?.parts[0]?.text]).toEqual([["user: hello", "said: Milk?", "user: maybe"], "Yes or no?"]);
  });

  test("moves what the agent goes on writing behind the answer", () => {
    const exchange = after([chunk("One coffee, ", { append: false }), 1], [status("INPUT_REQUIRED", agent("Milk?")), 2]);
    exchange.addUser(user("yes"));
    exchange.take(chunk("white."), 3);
    expect(shown(exchange)).toEqual(["user: hello", "said: Milk?", "user: yes", "a: One coffee, white."]);
  });
});

describe("a task that is read from the server", () => {
  const history = [user("coffee"), agent("Grinding"), agent("Milk?"), user("yes"), agent("Pouring")];

  test("has its whole transcript", () => {
    const exchange = Exchange.of(task("COMPLETED", { history, artifacts: [artifact("White.")] }));
    expect(shown(exchange)).toEqual(["user: coffee", "notes: Grinding", "said: Milk?", "user: yes", "notes: Pouring", "a: White."]);
    expect(exchange.phase).toBe("ended");
  });

  test("can be read again and again", () => {
    const exchange = Exchange.of(task("WORKING", { history: history.slice(0, 2) }));
    const whole = task("COMPLETED", { history, artifacts: [artifact("White.")] });
    exchange.takeTask(whole);
    exchange.takeTask(whole);
    expect(shown(exchange)).toEqual(["user: coffee", "notes: Grinding", "said: Milk?", "user: yes", "notes: Pouring", "a: White."]);
  });

  test("goes on live", () => {
    const exchange = Exchange.of(task("WORKING", { history: [user("hello")], artifacts: [artifact("Par")] }));
    exchange.take({ task: task("WORKING", { history: [user("hello")], artifacts: [artifact("Pari")] }) }, 9);
    exchange.take(chunk("s"), 10);
    expect(shown(exchange)).toEqual(["user: hello", "a: Paris"]);
  });

  test("without artifacts has the agent's last message as its answer", () => {
    expect(shown(Exchange.of(task("COMPLETED", { history: [user("hello"), agent("Hi")] })))).toEqual(["user: hello", "said: Hi"]);
  });
});

describe("an orchestrator", () => {
  const step = (id: string, name: string): StreamResponse => ({
    artifactUpdate: {
      taskId: "t",
      artifact: { artifactId: id, parts: [{ data: { agent: name, content: "8 km" } }], metadata: { "x-arbiter.sub_agent_response": true } },
    },
  });

  test("has its steps apart from its answer, each once", () => {
    const exchange = after([step("s0", "units"), 1], [step("s1", "maps"), 2], [step("s1", "maps"), null], [chunk("8 km", { append: false }), 3]);
    expect(shown(exchange)).toEqual(["user: hello", "steps: units, maps", "a: 8 km"]);
  });

  test("has each of very many steps once, also after a break", () => {
    const exchange = after();
    const steps = Array.from({ length: 1_500 }, (_, number) => step(`s${number}`, "units"));
    const counted = () => exchange.entries.reduce((sum, entry) => sum + (entry.kind === "steps" ? entry.steps.length + entry.dropped : 0), 0);
    for (const each of [...steps, ...steps]) exchange.take(each, null);
    expect(counted()).toBe(1_500);
  });
});

describe("a hostile agent", () => {
  test("that sends 100,000 chunks and notes is bounded and quick", () => {
    const exchange = new Exchange(user("hello"));
    const start = cpuTime();
    for (let number = 1; number <= 100_000; number++) exchange.take(chunk("word "), 2 * number);
    for (let number = 0; number < 10_000; number++) exchange.take(status("WORKING", { ...agent("note"), messageId: `n${number}` }), 300_000 + number);
    expect(cpuTime() - start).toBeLessThan(3_000);
    expect(exchange.artifactRecords[0]!.text).toHaveLength(500_000);
    const notes = exchange.entries.find((entry) => entry.kind === "notes");
    expect([notes?.notes.length, notes?.dropped]).toEqual([MAX_NOTES, 10_000 - MAX_NOTES]);
  });

  test("that notes and does without end is bounded", () => {
    const exchange = after();
    const data = { tool: "look", ok: true };
    for (let number = 0; number < 2_000; number++) {
      exchange.take(status("WORKING", agent(`note ${number}`)), null);
      exchange.take({ artifactUpdate: { taskId: "t", artifact: { artifactId: `s-${number}`, parts: [{ data }], metadata: { "x-arbiter.tool_call": true } } } }, null);
    }
    expect([exchange.entries.length, exchange.dropped]).toEqual([1 + MAX_PROGRESS, 4_000 - MAX_PROGRESS]);
    expect(shown(exchange).slice(-2)).toEqual(["notes: note 1999", "steps: look"]);
    expect(shown(exchange)[0]).toBe("user: hello");
  });

  test("that sends parts, artifacts and names without end is bounded", () => {
    const exchange = new Exchange(user("hello"));
    for (let number = 0; number < 3_000; number++) exchange.take(chunk("x", { id: `a${number}`, append: false }), null);
    expect(exchange.entries.length).toBe(1_001);
    const data: StreamResponse = { artifactUpdate: { taskId: "t", artifact: { artifactId: "a0", parts: [{ data: 1 }] }, append: true } };
    for (let number = 0; number < 6_000; number++) exchange.take(data, null);
    expect(exchange.artifactRecords[0]!.parts.length).toBe(5_000);
    expect(exchange.artifactRecords[0]!.dropped).toBe(1_001);
  });

  test("that leaves out what must be there breaks nothing", () => {
    const exchange = new Exchange(user("hello"));
    for (const event of [{}, { artifactUpdate: { artifact: { artifactId: "a" } } }, { statusUpdate: { status: {} } }, { message: {} }, { task: { id: "t", status: {} } }]) {
      expect(exchange.take(event as unknown as StreamResponse, null)).toBe(true);
    }
  });
});
