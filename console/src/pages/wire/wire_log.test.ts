import { describe, expect, test } from "vitest";
import type { WireLine } from "../../api/types.ts";
import { counterpart, exchangesOf, isFiltering, matches, NO_FILTER, valuesOf, WireLog } from "./wire_log.ts";

function line(number: number, more: Partial<WireLine> = {}): WireLine {
  return {
    number,
    exchange: number,
    at: `2026-11-18T06:30:00.${String(number).padStart(6, "0")}Z`,
    direction: "caller → server",
    kind: "request",
    operation: "SendMessage",
    agent: "currency",
    version: "1.0",
    binding: "JSONRPC",
    caller: "ada",
    what: "POST /",
    headers: {},
    body: null,
    size: 100,
    failed: false,
    milliseconds: null,
    ...more,
  };
}

const numbers = (lines: readonly WireLine[]) => lines.map((each) => each.number);

describe("bounds", () => {
  test("the oldest lines are dropped and counted", () => {
    const log = new WireLog(3);
    log.add([1, 2, 3, 4, 5].map((number) => line(number)));
    expect(numbers(log.lines)).toEqual([3, 4, 5]);
    expect(log.dropped).toBe(2);
  });

  test("large bodies drop older lines, but the newest line stays whatever its size", () => {
    const log = new WireLog(100, 1_000);
    log.add([line(1, { size: 600 }), line(2, { size: 600 }), line(3, { size: 5_000 })]);
    expect(numbers(log.lines)).toEqual([3]);
  });

  test("lines that the server dropped are counted apart", () => {
    const log = new WireLog();
    log.add([line(9)], 8);
    expect([log.missed, log.dropped]).toEqual([8, 0]);
  });

  test("clearing forgets lines and counts, and later lines have new keys", () => {
    const log = new WireLog();
    log.add([line(1)], 2);
    const key = log.lines[0]!.key;
    log.clear();
    expect([log.lines, log.missed]).toEqual([[], 0]);
    log.add([line(2)]);
    expect(log.lines[0]!.key).toBeGreaterThan(key);
  });
});

describe("pause", () => {
  test("lines that come while paused are kept, and shown on resume in order", () => {
    const log = new WireLog();
    log.add([line(1)]);
    log.pause();
    log.add([line(2), line(3)]);
    expect([numbers(log.lines), numbers(log.waiting)]).toEqual([[1], [2, 3]]);
    log.resume();
    expect([numbers(log.lines), log.waiting]).toEqual([[1, 2, 3], []]);
  });

  test("what waits is bounded, and what is shown stays", () => {
    const log = new WireLog(3);
    log.add([line(1), line(2)]);
    log.pause();
    log.add([3, 4, 5, 6].map((number) => line(number)));
    expect([numbers(log.lines), numbers(log.waiting), log.dropped]).toEqual([[1, 2], [4, 5, 6], 1]);
  });
});

describe("reconnecting", () => {
  test("a line that is sent again is not doubled", () => {
    const log = new WireLog();
    log.add([line(1), line(2)]);
    log.add([line(2), line(3)]);
    expect(numbers(log.lines)).toEqual([1, 2, 3]);
  });

  test("numbers that begin again belong to other exchanges", () => {
    const log = new WireLog();
    log.add([line(1), line(2)]);
    log.add([line(1, { at: "2026-11-18T07:00:00Z" })]);
    expect(numbers(log.lines)).toEqual([1, 2, 1]);
    expect(exchangesOf(log.lines)).toHaveLength(3);
  });
});

describe("filters", () => {
  const log = new WireLog();
  log.add([
    line(1),
    line(2, { agent: "units", failed: true, kind: "error", operation: "GetTask", body: { message: "No such Täsk" } }),
    line(3, { direction: "server → caller", headers: { "a2a-version": "1.0" } }),
  ]);
  const found = (filter: object) => numbers(log.lines.filter((each) => matches(each, { ...NO_FILTER, ...filter })));

  test.each([
    [{}, [1, 2, 3]],
    [{ agent: "units" }, [2]],
    [{ direction: "server → caller" }, [3]],
    [{ operation: "GetTask" }, [2]],
    [{ failed_only: true }, [2]],
    [{ text: " SUCH tÄsk " }, [2]],
    [{ text: "a2a-version" }, [3]],
    [{ agent: "units", failed_only: true, text: "nothing" }, []],
  ])("%j finds %j", (filter, expected) => expect(found(filter)).toEqual(expected));

  test("the lists of filters have what occurs", () => {
    expect(valuesOf(log.lines, "operation")).toEqual(["GetTask", "SendMessage"]);
    expect([isFiltering(NO_FILTER), isFiltering({ ...NO_FILTER, text: "  " })]).toEqual([false, false]);
  });
});

describe("both sides of a proxy", () => {
  const log = new WireLog();
  const at = (number: number, direction: string, kind: string, more: Partial<WireLine> = {}) =>
    line(number, { exchange: 7, direction, kind, ...more });
  log.add([
    at(1, "caller → proxy", "request"),
    at(2, "proxy → agent", "request", { version: "0.3" }),
    at(3, "agent → proxy", "event", { version: "0.3" }),
    at(4, "agent → proxy", "event", { version: "0.3" }),
    at(5, "proxy → caller", "event"),
    at(6, "agent → proxy", "error", { failed: true }),
    at(7, "proxy → caller", "event"),
    at(8, "proxy → caller", "error", { failed: true, milliseconds: 12.5 }),
    line(9, { exchange: 0, kind: "push", direction: "agent → proxy" }),
    line(10, { exchange: 0, kind: "push", direction: "agent → proxy" }),
  ]);

  test("the n-th event of one side is next to the n-th of the other", () => {
    const [exchange] = exchangesOf(log.lines);
    expect(exchange!.pairs.map((pair) => [pair.near?.number, pair.far?.number])).toEqual([
      [1, 2],
      [5, 3],
      [7, 4],
      [8, 6],
    ]);
    expect(exchange).toMatchObject({ hasFar: true, failed: true, milliseconds: 12.5 });
  });

  test("notifications belong to no exchange", () => {
    expect(exchangesOf(log.lines).map((each) => each.pairs.length)).toEqual([4, 1, 1]);
  });

  test("a line knows its translation, from either side", () => {
    const [, second, third] = log.lines;
    expect(counterpart(log.lines, second!)?.number).toBe(1);
    expect(counterpart(log.lines, third!)?.number).toBe(5);
    expect(counterpart(log.lines, log.lines[8]!)).toBeNull();
  });
});
