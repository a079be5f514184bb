import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SentenceAnnouncer } from "./announce.tsx";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("streamed text is said by the sentence, whatever the chunks, and completely", () => {
  const said: string[] = [];
  const announcer = new SentenceAnnouncer((text) => said.push(text));
  const text = "Paris is sunny. It is 21.5 degrees! Take a hat, though";
  for (let index = 0; index < text.length; index += 3) announcer.add(text.slice(index, index + 3));
  expect(said).toEqual(["Paris is sunny."]);
  vi.advanceTimersByTime(1000);
  expect(said).toEqual(["Paris is sunny.", "It is 21.5 degrees!"]);
  announcer.flush();
  vi.advanceTimersByTime(1000);
  expect(said).toEqual(["Paris is sunny.", "It is 21.5 degrees!", "Take a hat, though"]);
});

test("text without an end is said in pieces", () => {
  const said: string[] = [];
  const announcer = new SentenceAnnouncer((text) => said.push(text));
  announcer.add("word ".repeat(100));
  expect(said[0]!.length).toBeGreaterThan(300);
});

test("very much text at once takes little time and is not said in full", () => {
  const said: string[] = [];
  const announcer = new SentenceAnnouncer((text) => said.push(text));
  announcer.add("a. ".repeat(300_000));
  announcer.add("a".repeat(1_000_000));
  for (let index = 0; index < 2_000; index++) announcer.add("b");
  expect(said[0]!.length).toBeLessThanOrEqual(4_000);
});
