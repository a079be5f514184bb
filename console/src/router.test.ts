import { beforeEach, describe, expect, test } from "vitest";
import { address, isInternalClick, links, navigate, navigations, parse, query, route, setQuery, startChat, toSend } from "./router.ts";

beforeEach(() => {
  history.replaceState(null, "", "/console/");
  address.value = "/console/";
});

describe("links", () => {
  test("lead to the routes that they name, whatever is in an id", () => {
    const odd = "a/b?c#d%20ü .. <script>";
    expect(parse(pathOf(links.agent(odd)))).toEqual({ page: "agent", params: { id: odd } });
    expect(parse(pathOf(links.chat(odd, odd)))).toEqual({ page: "chat", params: { agent: odd, context: odd } });
    expect(parse(pathOf(links.task("index", odd)))).toEqual({ page: "task", params: { agent: "index", id: odd } });
    expect(parse(pathOf(links.operate("tenants", "3")))).toEqual({ page: "operate", params: { section: "tenants", item: "3" } });
    expect(links.task("a", "b", { at: 7 })).toBe("/console/tasks/a/b?at=7");
    expect(links.tasks({ state: "failed" })).toBe("/console/tasks?state=failed");
    expect(links.compare("a/1", "b/2")).toBe("/console/compare?a=a%2F1&b=b%2F2");
  });

  test("without parts lead to the page itself", () => {
    expect([links.home(), links.chat(), links.wire()].map((link) => parse(link).page)).toEqual(["home", "chat", "wire"]);
  });

  test("to elsewhere are no routes", () => {
    for (const path of ["/", "/consoles", "/console/nothing", "/console/tasks/only-agent"]) expect(parse(path).page).toBe("not_found");
    expect(parse("/console/agents/%E0%A4%A").params).toEqual({ id: "%E0%A4%A" });
  });
});

function pathOf(href: string): string {
  return new URL(href, "http://x").pathname;
}

test("navigating changes the address, the route and the history", () => {
  const before = navigations.value;
  navigate(links.agents());
  expect([location.pathname, route.value.page, navigations.value - before]).toEqual(["/console/agents", "agents", 1]);
  setQuery({ q: "cur", empty: "" });
  expect([location.search, query.value.get("q"), navigations.value - before]).toEqual(["?q=cur", "cur", 1]);
  setQuery({ q: null });
  expect(address.value).toBe("/console/agents");
});

test("a message to send is not in the address, where another site could put it", () => {
  startChat({ agent: "index", text: "delete everything" });
  expect(address.value).toBe("/console/chat/index");
  expect(toSend.value).toEqual({ agent: "index", text: "delete everything" });
});

test("only plain clicks on links into the console are handled here", () => {
  const link = (attributes: Record<string, string>) => Object.assign(document.createElement("a"), attributes);
  const click = (init: MouseEventInit = {}) => new MouseEvent("click", init);
  const inside = link({ href: `${location.origin}/console/tasks` });
  expect(isInternalClick(click(), inside)).toBe(true);
  expect(isInternalClick(click({ ctrlKey: true }), inside)).toBe(false);
  expect(isInternalClick(click({ button: 1 }), inside)).toBe(false);
  expect(isInternalClick(click(), link({ href: inside.href, target: "_blank" }))).toBe(false);
  expect(isInternalClick(click(), link({ href: inside.href, download: "x" }))).toBe(false);
  expect(isInternalClick(click(), link({ href: `${location.origin}/console/api/tasks/1/files/a/0` }))).toBe(false);
  expect(isInternalClick(click(), link({ href: "https://elsewhere.example/console/tasks" }))).toBe(false);
  expect(isInternalClick(click(), null)).toBe(false);
});
