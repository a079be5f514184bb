// The rows of a section in a document, page by page.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SectionPage } from "./section_page.tsx";
import { TENANT_SECTIONS } from "./tenant_sections.ts";

const SCHEDULES = TENANT_SECTIONS.find((each) => each.id === "schedules")!;

function pageOf(names: string[], next: string | null): Response {
  return Response.json({ schedules: names.map((name) => ({ id: name, name, status: "active", agent_id: "a", runs: 0 })), next_cursor: next });
}

let box: HTMLElement;
/** The reply to the request for the second page. */
let second: () => Response | Promise<Response>;

beforeEach(async () => {
  vi.stubGlobal("fetch", async (url: string) => (url.includes("cursor=next") ? second() : pageOf(["one", "two"], "next")));
  box = document.body.appendChild(document.createElement("div"));
  await act(() => render(<SectionPage section={SCHEDULES} rights={{ is_operator: false, scopes: ["read", "manage", "call"], tenant: "1" }} />, box));
  await shows("one", "two");
});

afterEach(() => {
  act(() => render(null, box));
  box.remove();
  vi.unstubAllGlobals();
});

function names(): string[] {
  return [...box.querySelectorAll("tbody tr")].map((row) => /one|two|three|four/.exec(row.textContent)![0]);
}

async function shows(...rows: string[]): Promise<void> {
  await vi.waitFor(() => expect(names()).toEqual(rows));
}

async function press(label: string): Promise<void> {
  await act(() => [...box.querySelectorAll("button")].find((button) => button.textContent.startsWith(label))!.click());
}

test("shows each row once while it reads more, and then those of both pages", async () => {
  let answer: (reply: Response) => void = () => undefined;
  second = () => new Promise((resolve) => (answer = resolve));
  await press("Read more");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(names()).toEqual(["one", "two"]);
  answer(pageOf(["three"], null));
  await shows("one", "two", "three");
  await press("Read again");
  await shows("one", "two");
});

test("shows each row once when the next page cannot be read, and reads it if asked again", async () => {
  second = () => Response.json({ error: { code: "internal", message: "The store is away." } }, { status: 500 });
  await press("Read more");
  await vi.waitFor(() => expect(box.textContent).toContain("The store is away."));
  expect(names()).toEqual(["one", "two"]);
  second = () => pageOf(["three"], null);
  await press("Read more");
  await shows("one", "two", "three");
});
