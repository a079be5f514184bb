// The list of tasks in a document: links, and keys that move between them.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { TaskRow } from "../../api/types.ts";
import { ListView } from "./list_view.tsx";

function row(id: string, more: Partial<TaskRow> = {}): TaskRow {
  const updated_at = "2026-11-18T06:00:00.000000Z";
  return {
    id, agent: "a", agent_name: "A", context: "c", state: "failed", tenant: "Acme", owner: "", created_at: updated_at, updated_at,
    events: 1, size: 1, title: `title ${id}`, status_text: "no money", created_in: "1.0", holder: "", parent: null, ...more,
  };
}

let box: HTMLElement;

beforeEach(() => {
  box = document.body.appendChild(document.createElement("div"));
});

afterEach(() => {
  act(() => render(null, box));
  box.remove();
});

function show(rows: TaskRow[], showTenant = false): void {
  act(() => render(<ListView rows={rows} showTenant={showTenant} onEnd={() => undefined} />, box));
}

function press(key: string): void {
  const target = document.activeElement instanceof HTMLAnchorElement ? document.activeElement : box.querySelector(".virtual")!;
  act(() => void target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
}

it("has one link in each row, of which one can be reached with the Tab key", () => {
  show([row("1"), row("2"), row("3")]);
  expect([...box.querySelectorAll("a")].map((link) => [link.getAttribute("href"), link.tabIndex])).toEqual([
    ["/console/tasks/a/1", 0], ["/console/tasks/a/2", -1], ["/console/tasks/a/3", -1],
  ]);
});

it("moves the focus with j, k, the arrow keys, Home and End", () => {
  show([row("1"), row("2"), row("3")]);
  const seen = ["j", "j", "ArrowDown", "k", "Home", "End"].map((key) => {
    press(key);
    return document.activeElement?.textContent;
  });
  expect(seen).toEqual(["title 1", "title 2", "title 3", "title 2", "title 1", "title 3"]);
});

it("keeps the focus on a task that moves because another one has changed", () => {
  show([row("1"), row("2")]);
  press("j");
  show([row("9"), row("1"), row("2")]);
  expect(document.activeElement?.textContent).toBe("title 1");
  press("j");
  expect(document.activeElement?.textContent).toBe("title 2");
});

it("says the state and the reason in words, and the tenant to operators", () => {
  show([row("1")], true);
  expect(box.querySelector("[data-index='0']")!.textContent).toContain("Failed");
  expect(box.querySelector("[data-index='0']")!.textContent).toContain("no money");
  expect(box.querySelector("[data-index='0']")!.textContent).toContain("Acme");
});
