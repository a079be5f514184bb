// The filters of the task list in the URL, and its rows with pages and live changes.

import { describe, expect, it } from "vitest";
import type { TaskPage, TaskRow } from "../../api/types.ts";
import { apiFilter, isFiltered, NO_FILTER, readFilter, writeFilter, type TaskFilter } from "./filters.ts";
import { TaskRows } from "./rows.ts";
import { cpuTime } from "../../testing/cpu_time.ts";

describe("the filters of the task list", () => {
  it.each<Partial<TaskFilter>>([
    {},
    { agent: "currency", states: ["working", "failed"], context: "c 1&2=3", text: "100 % \"USD\"" },
    { range: "1h", tenant: "3" },
    { since: "2026-11-18T06:00:00.000Z", until: "2026-11-18T07:00:00.000Z" },
  ])("are the same after a round trip through the URL: %j", (members) => {
    const filter = { ...NO_FILTER, ...members };
    expect(readFilter(new URLSearchParams(writeFilter(filter).toString()))).toEqual(filter);
    expect(isFiltered(filter)).toBe(Object.keys(members).length > 0);
  });

  it("drop what is not understood", () => {
    const query = new URLSearchParams("state=working&state=nonsense&state=working&range=5y&since=yesterday");
    expect(readFilter(query)).toEqual({ ...NO_FILTER, states: ["working"] });
  });

  it("count a range from now on, whenever the link is opened", () => {
    const now = Date.parse("2026-11-18T08:00:00Z");
    expect(apiFilter({ ...NO_FILTER, range: "1h", text: "x" }, now)).toEqual({ since: "2026-11-18T07:00:00.000Z", text: "x" });
  });
});

function row(id: string, minute: number, more: Partial<TaskRow> = {}): TaskRow {
  const updated_at = `2026-11-18T06:${String(minute).padStart(2, "0")}:00.000000Z`;
  return {
    id, agent: "a", agent_name: "A", context: "c", state: "working", tenant: "", owner: "", created_at: updated_at, updated_at,
    events: 1, size: 1, title: "", status_text: "", created_in: "1.0", holder: "", parent: null, ...more,
  };
}

function page(tasks: TaskRow[], next: string | null, more: Partial<TaskPage> = {}): TaskPage {
  return { tasks, next, total: 10, searched: null, ...more };
}

describe("the rows of the task list", () => {
  it("come in pages, each task once, newest first", () => {
    const rows = new TaskRows();
    rows.addPage(page([row("3", 30), row("2", 20)], "x"));
    rows.addPage(page([row("2", 20), row("1", 10)], null, { total: null }));
    expect(rows.rows.map((each) => each.id)).toEqual(["3", "2", "1"]);
    expect(rows.total).toBe(10);
    expect(rows.hasMore).toBe(false);
  });

  it("begin again without those that have gone meanwhile", () => {
    const rows = new TaskRows();
    rows.addPage(page([row("2", 20), row("1", 10)], "x"));
    rows.restart(page([row("1", 10)], null, { total: 1 }));
    expect([rows.rows.map((each) => each.id), rows.total, rows.hasMore]).toEqual([["1"], 1, false]);
  });

  it("move when their tasks change, and new ones join at the top", () => {
    const rows = new TaskRows();
    rows.addPage(page([row("3", 30), row("2", 20), row("1", 10)], null));
    expect(rows.change([row("1", 40, { state: "completed" }), row("4", 41)], ["2"])).toBe(1);
    expect(rows.rows.map((each) => [each.id, each.state])).toEqual([["4", "working"], ["1", "completed"], ["3", "working"]]);
    expect(rows.total).toBe(10);
  });

  it("leave out changes beyond the last page that was read, which will have them", () => {
    const rows = new TaskRows();
    rows.addPage(page([row("3", 30), row("2", 20)], "more"));
    expect(rows.change([row("0", 5)], [])).toBe(0);
    expect(rows.rows.map((each) => each.id)).toEqual(["3", "2"]);
  });

  it("keep tasks of two agents apart that have the same id", () => {
    const rows = new TaskRows();
    rows.addPage(page([row("1", 20), row("1", 10, { agent: "b" })], null));
    rows.change([row("1", 30, { agent: "b" })], []);
    expect(rows.rows.map((each) => each.agent)).toEqual(["b", "a"]);
  });

  it("add up how many tasks a search has looked at", () => {
    const rows = new TaskRows();
    rows.addPage(page([], "x", { searched: { tasks: 2000, until: "u1" } }));
    rows.addPage(page([row("1", 1)], "y", { searched: { tasks: 2000, until: "u2" } }));
    expect(rows.searched).toEqual({ tasks: 4000, until: "u2" });
  });

  it("take in a change among 10,000 in a few milliseconds", () => {
    const rows = new TaskRows();
    const many = Array.from({ length: 10_000 }, (_, index) => row(String(index).padStart(5, "0"), 59 - (index % 60)));
    rows.addPage(page(many, null));
    const began = cpuTime();
    rows.change([row("05000", 59, { state: "failed" })], []);
    expect(cpuTime() - began).toBeLessThan(100);
    expect(rows.rows).toHaveLength(10_000);
  });
});
