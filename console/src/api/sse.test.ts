import { describe, expect, test } from "vitest";
import { SseDecoder } from "./sse.ts";

const STREAM = ': hello\r\n\r\ndata: {"page": "p-1"}\n\ndata: one\rdata: two\r\rid: 7\nevent: x\ndata:three\n\n: ping\n\ndata: unfinished\n';

function decoded(pieces: string[]): string[] {
  const found: string[] = [];
  const decoder = new SseDecoder((data) => found.push(data));
  for (const piece of pieces) decoder.feed(piece);
  return found;
}

describe("events", () => {
  test("are the same wherever the text is cut", () => {
    const whole = ['{"page": "p-1"}', "one\ntwo", "three"];
    expect(decoded([STREAM])).toEqual(whole);
    for (let size = 1; size < 12; size++) {
      const pieces = STREAM.match(new RegExp(`[\\s\\S]{1,${size}}`, "g"))!;
      expect(decoded(pieces)).toEqual(whole);
    }
  });

  test("of many megabytes in small pieces are read in linear time", () => {
    const piece = "x".repeat(64 * 1024);
    const pieces = ["data: ", ...Array.from({ length: 400 }, () => piece), "\n\n"];
    expect(decoded(pieces)[0]).toHaveLength(400 * 64 * 1024);
  });
});
