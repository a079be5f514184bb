import { expect, test } from "vitest";
import { formatMoney } from "./formats.ts";
import { dayBefore, daysOf, MEASURES, sumBy, totalOf, type UsageRow } from "./usage.ts";

const row = (day: string, agent: string, calls: number, cost = "0"): UsageRow => ({
  day, agent, calls, input_tokens: 100 * calls, output_tokens: 10 * calls, cost, calls_without_price: 0,
});

const ROWS = [row("2026-11-01", "index", 2, "0.10"), row("2026-11-01", "units", 1), row("2026-11-03", "index", 1, "0.20")];

test("usage is summed up by agent, and in all", () => {
  expect(sumBy(ROWS, "agent").map((sums) => [sums.name, sums.calls, MEASURES.tokens(sums)])).toEqual([["index", 3, 330], ["units", 1, 110]]);
  expect(totalOf(ROWS)).toMatchObject({ calls: 4, input: 400, output: 40 });
  expect(totalOf(ROWS).cost).toBeCloseTo(0.3);
});

test("the chart has every day, also those without calls and over the end of summer time", () => {
  const days = daysOf({ from: "2026-10-24", to: "2026-11-03", rows: ROWS });
  expect(days).toHaveLength(11);
  expect(days.filter((day) => day.calls).map((day) => [day.name, day.calls])).toEqual([["2026-11-01", 3], ["2026-11-03", 1]]);
  expect(dayBefore("2026-03-01", 1)).toBe("2026-02-28");
});

test.each([["0", "0.00 USD"], ["1234.5", "1,234.50 USD"], ["0.000015", "0.000015 USD"], ["x", ""]])("%s is written as %s", (value, expected) =>
  expect(formatMoney(value, "USD")).toBe(expected),
);
