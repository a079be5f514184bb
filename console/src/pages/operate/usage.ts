// Reports of usage as the page sums them up: by day for the chart, and by agent, model, caller or tenant for the table.

export interface UsageRow {
  calls: number;
  input_tokens: number;
  output_tokens: number;
  cost: string | number;
  calls_without_price: number;
  tenant?: string | null;
  day?: string | null;
  agent?: string | null;
  caller?: string | null;
  model?: string | null;
  conversation?: string | null;
}

export interface UsageReport {
  from: string;
  to: string;
  currency: string;
  rows: UsageRow[];
  next_offset: number | null;
}

export type Dimension = "agent" | "model" | "caller" | "conversation" | "tenant";
export type Measure = "tokens" | "calls" | "cost";

export interface Sums {
  name: string;
  calls: number;
  input: number;
  output: number;
  cost: number;
  unpriced: number;
}

export const MEASURES: Record<Measure, (sums: Sums) => number> = {
  tokens: (sums) => sums.input + sums.output,
  calls: (sums) => sums.calls,
  cost: (sums) => sums.cost,
};

const zero = (name: string): Sums => ({ name, calls: 0, input: 0, output: 0, cost: 0, unpriced: 0 });

/** The sums by the values of a member, in the order in which they occur. */
export function sumBy(rows: readonly UsageRow[], member: Dimension | "day"): Sums[] {
  const found = new Map<string, Sums>();
  for (const row of rows) {
    const name = row[member] ?? "";
    const sums = found.get(name) ?? zero(name);
    found.set(name, sums);
    add(sums, row);
  }
  return [...found.values()];
}

export function totalOf(rows: readonly UsageRow[]): Sums {
  const sums = zero("");
  for (const row of rows) add(sums, row);
  return sums;
}

function add(sums: Sums, row: UsageRow): void {
  sums.calls += row.calls;
  sums.input += row.input_tokens;
  sums.output += row.output_tokens;
  sums.cost += Number(row.cost);
  sums.unpriced += row.calls_without_price;
}

/** One entry for every day from the first to the last, both included, also for those without calls. */
export function daysOf(report: Pick<UsageReport, "from" | "to" | "rows">): Sums[] {
  const known = new Map(sumBy(report.rows, "day").map((sums) => [sums.name, sums]));
  const days: Sums[] = [];
  const last = Date.parse(`${report.to}T00:00:00Z`);
  for (let at = Date.parse(`${report.from}T00:00:00Z`); at <= last && days.length < 400; at += 86_400_000) {
    const day = new Date(at).toISOString().slice(0, 10);
    days.push(known.get(day) ?? zero(day));
  }
  return days;
}

/** The day so many days before another one. */
export function dayBefore(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - days * 86_400_000).toISOString().slice(0, 10);
}
