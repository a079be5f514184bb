import { describe, expect, test } from "vitest";
import cases from "./fold.cases.json";
import { foldEvents, TaskFold } from "./fold.ts";
import type { Artifact, Message, StreamResponse, Task } from "./types.ts";

type Recorded = StreamResponse & { added?: Message };

/** ProtoJSON leaves empty lists and objects out. */
function plain(task: Task | null): unknown {
  return JSON.parse(JSON.stringify(task), (_, value: unknown) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).filter(([, each]) => !(Array.isArray(each) && each.length === 0)))
      : value,
  );
}

describe("streams that the server has folded", () => {
  (cases as unknown as { start: Task; events: Recorded[]; task: Task }[]).forEach(({ start, events, task }, index) => {
    test(`number ${index} gives the same task here, also if it is looked at after every event`, () => {
      const folded = new TaskFold(start);
      const watched = new TaskFold(start);
      for (const event of events) {
        for (const each of [folded, watched]) {
          if (event.added) each.addMessage(event.added);
          else each.apply(event);
        }
        watched.task();
      }
      expect(plain(folded.task())).toEqual(plain(task));
      expect(plain(watched.task())).toEqual(plain(task));
    });
  });
});

const START: Task = { id: "t", contextId: "c", status: { state: "TASK_STATE_WORKING" } };
const chunk = (text: string, append = true, artifactId = "a"): StreamResponse => ({
  artifactUpdate: { taskId: "t", artifact: { artifactId, parts: [{ text }] }, append },
});

test("an update without append voids what an agent had said before it crashed", () => {
  const task = foldEvents(START, [chunk("Paris is", false), chunk(" rai"), chunk("Paris is sunny", false), chunk(" today")]);
  expect(task?.artifacts).toEqual([{ artifactId: "a", parts: [{ text: "Paris is sunny today" }] }]);
});

test("events that were known already count once", () => {
  const folded = new TaskFold();
  expect(folded.apply({ task: START }, 4)).toBe(true);
  expect([folded.apply(chunk("a", false), 5), folded.apply(chunk("b"), 6), folded.apply(chunk("b"), 6), folded.apply(chunk("a", false), 5)]).toEqual([true, true, false, false]);
  expect(folded.task()?.artifacts?.[0]?.parts).toEqual([{ text: "ab" }]);
  expect(folded.apply({ task: { ...START, artifacts: [{ artifactId: "a", parts: [{ text: "ab" }] }] } }, 6)).toBe(true);
  folded.apply(chunk("c"), 7);
  expect(folded.task()?.artifacts?.[0]?.parts).toEqual([{ text: "abc" }]);
});

test("a view does not change afterwards, and shares what stayed the same", () => {
  const folded = new TaskFold(START);
  folded.apply(chunk("one", false, "a"));
  folded.apply(chunk("two", false, "b"));
  const before = folded.task()!;
  folded.apply(chunk("!", true, "b"));
  const after = folded.task()!;
  const [oldA, oldB] = before.artifacts as [Artifact, Artifact];
  expect(oldB.parts).toEqual([{ text: "two" }]);
  expect(after.artifacts![1]!.parts).toEqual([{ text: "two!" }]);
  expect(after.artifacts![0]).toBe(oldA);
  expect(folded.task()).toBe(after);
});

test("100,000 chunks are one text", () => {
  const folded = new TaskFold(START);
  for (let number = 0; number < 100_000; number++) folded.apply(chunk("word ", number > 0), number);
  expect(folded.task()!.artifacts![0]!.parts).toEqual([{ text: "word ".repeat(100_000) }]);
});

test("an agent that answers with a message has no task", () => {
  const folded = new TaskFold();
  const message: Message = { messageId: "m", role: "ROLE_AGENT", parts: [{ text: "Hi" }] };
  folded.apply({ message });
  expect([folded.task(), folded.reply]).toEqual([null, message]);
});

test("what breaks the rules is shown nevertheless", () => {
  const folded = new TaskFold();
  folded.apply({ statusUpdate: { taskId: "t", status: { state: "TASK_STATE_COMPLETED" } } });
  folded.apply(chunk("late"));
  expect(folded.task()).toMatchObject({ id: "t", status: { state: "TASK_STATE_COMPLETED" }, artifacts: [{ parts: [{ text: "late" }] }] });
});
