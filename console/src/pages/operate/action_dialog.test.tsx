// Actions as users run them: confirmations, tokens that are shown once, refusals at their field, and conflicts.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ActionDialog, beginAction } from "./action_dialog.tsx";
import { DiffView } from "./diff_view.tsx";
import type { Row, Section } from "./section.ts";
import { HOST_SECTIONS } from "./host_sections.ts";
import { TENANT_SECTIONS } from "./tenant_sections.ts";

interface Sent {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: unknown;
}

let sent: Sent[] = [];
let root: HTMLElement;

/** Answer requests with these replies, in turn. */
function answer(...replies: [status: number, body: unknown][]): void {
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : undefined;
    sent.push({ method: init.method!, url, headers: init.headers as Record<string, string>, body });
    const [status, reply] = replies.shift() ?? [500, {}];
    return new Response(JSON.stringify(reply), { status });
  });
}

beforeEach(() => {
  sent = [];
  root = document.body.appendChild(document.createElement("div"));
});

afterEach(() => {
  act(() => render(null, root));
  root.remove();
  vi.unstubAllGlobals();
});

const sections = [...HOST_SECTIONS, ...TENANT_SECTIONS];
const section = (id: string): Section => sections.find((each) => each.id === id)!;
const actionOf = (id: string, label: string) => [...(section(id).actions ?? []), ...(section(id).create ?? [])].find((each) => each.label === label)!;

function show(id: string, label: string, row: Row, onDone: (reply: Row) => void = () => undefined, onClose = () => undefined): void {
  act(() => render(<ActionDialog run={{ section: section(id), action: actionOf(id, label), row }} onClose={onClose} onDone={onDone} />, root));
}

const submit = () => root.querySelector<HTMLButtonElement>("button[type=submit]")!;
const input = (index = 0) => root.querySelectorAll<HTMLInputElement>("form input, form textarea")[index]!;

function type(field: HTMLInputElement, text: string): void {
  act(() => {
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

async function press(): Promise<void> {
  await act(async () => {
    root.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
    await new Promise((resolve) => setTimeout(resolve, 5));
  });
}

test("a token is revoked only after its name was typed, and the dialog says what will happen", async () => {
  answer([200, { deleted: true }]);
  const onDone = vi.fn();
  show("tokens", "Revoke", { id: "k1", name: "nightly" }, onDone);
  expect(root.textContent).toContain("Revoke the token nightly?");
  expect(root.textContent).toContain("This cannot be undone.");
  expect(submit().disabled).toBe(true);
  await press();
  expect(sent).toEqual([]);
  type(input(), "nightl");
  expect(submit().disabled).toBe(true);
  type(input(), "nightly");
  expect(submit().disabled).toBe(false);
  await press();
  expect(sent.map((each) => [each.method, each.url])).toEqual([["DELETE", "/v1/access/tokens/k1"]]);
  expect(onDone).toHaveBeenCalledOnce();
});

test("the token of a new tenant is shown, and that it is shown once", async () => {
  answer([201, { id: 2, name: "acme", token: "atr_secret" }]);
  const onClose = vi.fn();
  show("tenants", "Create a tenant", {}, undefined, onClose as never);
  type(input(), "acme");
  await press();
  expect(sent[0]!.body).toEqual({ name: "acme" });
  expect(root.querySelector(".operate-secret")?.textContent).toBe("atr_secret");
  expect(root.textContent).toContain("shown only this time");
  expect(onClose).not.toHaveBeenCalled();
});

test("what the host refuses is shown at its field", async () => {
  answer([400, { error: "$.quotas.requests_per_minute: Expected `int` >= 0" }]);
  show("tenants", "Change", { id: 2, name: "acme", quotas: {}, settings: {} });
  type(input(1), "-5");
  await press();
  const error = root.querySelector(".field-error")!;
  expect(error.textContent).toBe("Expected `int` >= 0");
  expect(input(1).getAttribute("aria-describedby")).toBe(error.id);
  expect(input(1).value).toBe("-5");
});

test("a form with a missing field is not sent", async () => {
  answer();
  show("agents", "Stop", { id: "units", name: "Units" });
  await press();
  expect([sent, root.querySelector(".field-error")?.textContent]).toEqual([[], "is required"]);
});

test("a change of another author is shown, and the user's values can be kept", async () => {
  const seen = { id: "s1", revision: 1, name: "Daily", agent_id: "index", message: "hello", cron: "0 9 * * *", time_zone: "UTC" };
  const now = { ...seen, revision: 2, cron: "0 8 * * *" };
  answer([409, { error: "the schedule was changed meanwhile" }], [200, now], [200, now]);
  show("schedules", "Change", seen);
  type(input(0), "Nightly");
  await press();
  expect(sent[0]!.headers["If-Match"]).toBe('"1"');
  expect(root.querySelector(".operate-conflict")?.textContent).toContain("0 8 * * *");
  const keep = [...root.querySelectorAll("button")].find((each) => each.textContent === "Keep mine")!;
  act(() => keep.click());
  expect(input(0).value).toBe("Nightly");
  await press();
  expect([sent[2]!.headers["If-Match"], (sent[2]!.body as Row).name]).toEqual(['"2"', "Nightly"]);
});

test("what can be undone runs at once, and what cannot is asked first", async () => {
  answer([200, { stopped: false }]);
  const ask = vi.fn();
  const row = { id: "units", name: "Units" };
  beginAction({ section: section("agents"), action: actionOf("agents", "Stop"), row }, ask, () => undefined);
  expect([ask.mock.calls.length, sent.length]).toEqual([1, 0]);
  beginAction({ section: section("agents"), action: actionOf("agents", "Resume"), row }, ask, () => undefined);
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect([ask.mock.calls.length, sent.map((each) => each.url)]).toEqual([1, ["/v1/agents/units/resume"]]);
});

test("a difference has signs beside its colours, and hostile text is visible", () => {
  const changes = [
    { member: "goal", before: "one\ntwo", after: "one\nthree \u202e<img src=x>" },
    { member: "model", before: "", after: "x/y" },
  ];
  act(() => render(<DiffView changes={changes} />, root));
  expect([...root.querySelectorAll(".diff-line")].map((each) => each.textContent)).toEqual([" one", "−removed: two", "+added: three ⟨U+202E⟩<img src=x>"]);
  expect(root.querySelector("img")).toBeNull();
  expect(root.querySelector(".diff-values")?.textContent).toBe("Before (empty)After x/y");
});
