// Sections against replies of a real host (recorded_replies.json; the queues and replicas in it are written by hand
// after their API, since the host had none), and how forms become requests.

import { describe, expect, test } from "vitest";
import { budgetAction } from "./budgets.ts";
import { splitPath } from "./host_call.ts";
import { HOST_SECTIONS } from "./host_sections.ts";
import recorded from "./recorded_replies.json";
import { actionsOf, bodyOf, cellText, fieldAt, fill, initialValues, isShown, pathFor, problemsOf, titleOf, valueAt, type Row, type Section } from "./section.ts";
import { nextOf, rowsIn } from "./section_page.tsx";
import { TENANT_SECTIONS } from "./tenant_sections.ts";

const SECTIONS = [...HOST_SECTIONS, ...TENANT_SECTIONS];
const replies = recorded as unknown as Record<string, Row>;
const OPERATOR = { is_operator: true, scopes: [], tenant: "1" };
const VIEWER = { is_operator: false, scopes: ["read"], tenant: "1" };

const section = (id: string) => SECTIONS.find((each) => each.id === id)!;
const action = (id: string, label: string) => [...(section(id).actions ?? []), ...(section(id).create ?? [])].find((each) => each.label === label)!;
const firstRow = (each: Section) => rowsIn(each, replies[each.path])[0]!;

describe.each(SECTIONS.map((each) => [each.id, each] as const))("the section %s", (_, each) => {
  test("finds its rows in the reply, with a key and its first column", () => {
    const row = firstRow(each);
    expect(row).toBeDefined();
    expect(row[each.key]).toBeDefined();
    expect(cellText(valueAt(row, each.columns[0]![0]), each.columns[0]![2])).not.toBe("");
  });

  test("has no column that every reply leaves undefined without saying what that means", () => {
    const known = Object.keys(firstRow(each));
    const optional = ["version", "pinned_version", "updated_at", "stopped", "role", "model", "position", "replica", "url"];
    for (const [member] of each.columns) expect([...known, ...optional]).toContain(member.split(".")[0]);
  });

  test("has actions whose paths and texts are filled from a row", () => {
    const row = { ...firstRow(each), request_id: "r1", agent_id: "units", state: "x", reason: "" };
    for (const one of each.actions ?? []) {
      expect(pathFor(each, one.path, row)).toMatch(/^\/(v1|console)\/[^{}]*$/);
      expect(pathFor(each, one.path, row)).not.toMatch(/\/\//);
      expect(titleOf(one, each.noun, row)).not.toMatch(/[{}]/);
      expect(fill(one.done, each.noun, row)).not.toMatch(/[{}]/);
    }
  });

  test("asks before everything that cannot be undone", () => {
    for (const one of [...(each.actions ?? []), ...(each.create ?? [])]) {
      if (one.method === "DELETE") expect([one.typed, one.warning?.includes("cannot be undone")]).toEqual(["name", true]);
      if (one.isDanger) expect(one.warning).toBeTruthy();
    }
  });
});

describe("rights", () => {
  test("a viewer sees sections to read and no action; an operator sees all", () => {
    expect(TENANT_SECTIONS.filter((each) => isShown(each.needs, VIEWER)).map((each) => each.id)).toEqual(["agents", "schedules", "queue", "roles", "stops"]);
    expect(HOST_SECTIONS.some((each) => isShown(each.needs, VIEWER))).toBe(false);
    expect(actionsOf(section("schedules").actions, { status: "active" }, VIEWER)).toEqual([]);
    expect(SECTIONS.every((each) => isShown(each.needs, OPERATOR))).toBe(true);
  });

  test("running a schedule needs to manage and to call", () => {
    const manager = { ...VIEWER, scopes: ["read", "manage"] };
    const labels = (rights: typeof manager) => actionsOf(section("schedules").actions, { status: "active" }, rights).map((each) => each.label);
    expect(labels(manager)).toEqual(["Pause", "Delete"]);
    expect(labels({ ...manager, scopes: ["manage", "call"] })).toEqual(["Run now", "Pause", "Change", "Delete"]);
  });

  test("only what fits the state of a row is offered", () => {
    const labels = (row: Row) => actionsOf(section("agents").actions, row, OPERATOR).map((each) => each.label);
    expect([labels({ id: "a" }), labels({ id: "a", stopped: { reason: "x" } })]).toEqual([["Stop"], ["Resume"]]);
    expect(actionsOf(section("roles").actions, { is_built_in: true }, OPERATOR)).toEqual([]);
  });
});

describe("forms", () => {
  test("a quota that is emptied is null, which is the default of the host again", () => {
    const change = action("tenants", "Change");
    const row = rowsIn(section("tenants"), replies["/v1/admin/tenants"])[1]!;
    const values = initialValues(change.fields!, row);
    expect(values).toMatchObject({ name: "acme", requests_per_minute: "60", tokens_per_day: "", file_parts: false });
    const body = bodyOf(change, row, { ...values, requests_per_minute: "", tokens_per_day: "1000" });
    expect(body).toMatchObject({ name: "acme", quotas: { requests_per_minute: null, tokens_per_day: 1000 }, settings: { file_parts: false } });
  });

  test("what names the thing in the path is not in the body", () => {
    const add = action("mcp", "Add a server");
    const values = { name: "search", url: "https://x", headers: '{"A": "b"}', tools: "find\n\n read ", identity: false, description: "", timeout_seconds: "" };
    expect(pathFor(section("mcp"), add.path, {}, values)).toBe("/v1/mcp/servers/search");
    expect(bodyOf(add, {}, values)).toEqual({ url: "https://x", headers: { A: "b" }, tools: ["find", "read"], identity: false });
  });

  test("the revision that was seen is sent, and the worker of a replica", () => {
    expect(bodyOf(action("mcp", "Change"), { revision: 3 }, { url: "https://x" })).toMatchObject({ revision: 3 });
    expect(bodyOf(action("replicas", "Drain"), { worker: "w-1" }, {})).toEqual({ replica: "w-1" });
  });

  test("budgets are one form over the members of the tenant, the request and the agents", () => {
    const set = budgetAction("own");
    const row = replies["/v1/budgets"]!;
    const values = initialValues(set.fields!, row);
    expect(values).toMatchObject({ "tenant.day.cost": "20", "tenant.month.tokens": "1000000", "request.cost": "0.50" });
    expect(bodyOf(set, row, values)).toEqual({
      tenant: { day: { cost: "20" }, month: { tokens: 1_000_000 } },
      request: { cost: "0.50" },
      agents: { writer: { day: { cost: "5.50" } } },
      revision: 1,
    });
  });

  test("fields that are missing or wrong are named before anything is sent", () => {
    const fields = [{ name: "a", label: "A", isRequired: true }, { name: "n", label: "N", kind: "number" as const }, { name: "j", label: "J", kind: "json" as const }];
    expect(problemsOf(fields, { a: "", n: "x", j: "{" })).toEqual({ a: "is required", n: "must be a number", j: "must be JSON" });
    expect(problemsOf(fields, { a: "x", n: "1", j: "" })).toEqual({});
  });

  test("the member that the host names leads to its field", () => {
    const { fields } = action("tenants", "Change");
    const [path, reason] = splitPath("$.quotas.storage_bytes: Expected `int` >= 0");
    expect([fieldAt(fields!, path)?.name, reason]).toEqual(["storage_bytes", "Expected `int` >= 0"]);
    expect(splitPath("tenant not found")).toEqual(["", "tenant not found"]);
  });
});

describe("pages", () => {
  test("the next page begins where the reply says, or after the last row of a full one", () => {
    const rows = Array.from({ length: 50 }, (_, index) => ({ id: 100 - index }));
    expect(nextOf(section("audit"), { next_before_id: 7 }, [])).toBe(7);
    expect(nextOf(section("audit"), { next_before_id: null }, [])).toBeNull();
    expect(nextOf(section("host-audit"), {}, rows)).toBe(51);
    expect(nextOf(section("host-audit"), {}, rows.slice(1))).toBeNull();
  });
});

test.each([
  [0, "time", "never"],
  [true, "yes", "yes"],
  [["read", "call"], "list", "read, call"],
  [-12.5, "lease", "expired 12.5 s ago"],
  [1_234_567, "number", "1,234,567"],
  [null, "time", ""],
] as const)("the cell of %j as %s is %j", (value, kind, expected) => expect(cellText(value, kind)).toBe(expected));
