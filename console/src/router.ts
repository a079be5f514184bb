// Routes as typed paths, over the browser's own history: every page has a URL, and every link is a real link.
// A click on a link inside the console changes `location` without loading the page again. After every navigation the
// document has a new title and the focus is on the heading of the page, as if it had been loaded.

import { computed, signal } from "./signals.ts";

export const BASE = "/console";

export type PageName =
  | "home" | "agents" | "agent" | "chat" | "tasks" | "task" | "compare" | "approvals" | "wire" | "check" | "operate";

export interface Route {
  page: PageName | "not_found";
  /** agent: `id`; chat: `agent`, `context`; task: `agent`, `id`; operate: `section`, `item`. Absent parts are not set. */
  params: Record<string, string>;
}

/** The links of the console: `<a href={links.task("currency", id)}>`. */
export const links = {
  home: () => `${BASE}/`,
  agents: () => join("agents"),
  agent: (id: string) => join("agents", id),
  /** Without a context a new conversation begins. `message` is put into the composer; `startChat` also sends it. */
  chat: (agent?: string, context?: string, start: { message?: string; skill?: string } = {}) =>
    withSearch(join("chat", ...(agent ? [agent, ...(context ? [context] : [])] : [])), start),
  tasks: (filter: { agent?: string; state?: string; context?: string; text?: string } = {}) =>
    withSearch(join("tasks"), filter),
  task: (agent: string, id: string, options: { at?: number; view?: string } = {}) =>
    withSearch(join("tasks", agent, id), { at: options.at?.toString(), view: options.view }),
  /** Both are `AGENT/ID`. */
  compare: (a?: string, b?: string) => withSearch(join("compare"), { a, b }),
  approvals: () => join("approvals"),
  wire: (agent?: string) => withSearch(join("wire"), { agent }),
  check: (agent?: string) => withSearch(join("check"), { agent }),
  operate: (...section: string[]) => join("operate", ...section),
};

/** A message that the chat with this agent sends when it opens, once. It takes it out: `toSend.value = null`. */
export interface MessageToSend {
  agent: string;
  text: string;
  skill?: string;
}

/** Not part of the URL: a link on another site could make the user send something otherwise. */
export const toSend = signal<MessageToSend | null>(null);

/** Open a new conversation with an agent and send a message there. */
export function startChat(message: MessageToSend): void {
  toSend.value = message;
  navigate(links.chat(message.agent));
}

function join(...parts: string[]): string {
  return [BASE, ...parts.map(encodeURIComponent)].join("/");
}

function withSearch(path: string, members: { [name: string]: string | undefined }): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value) search.set(name, value);
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** The route of a path; parts after the known ones belong to `operate` only. */
export function parse(pathname: string): Route {
  if (pathname !== BASE && !pathname.startsWith(`${BASE}/`)) return { page: "not_found", params: {} };
  const [first = "", ...rest] = pathname.slice(BASE.length).split("/").filter(Boolean).map(decode);
  const [second, third] = rest;
  const named = (params: Record<string, string | undefined>) =>
    Object.fromEntries(Object.entries(params).filter((each): each is [string, string] => each[1] !== undefined));
  switch (first) {
    case "":
      return { page: "home", params: {} };
    case "agents":
      return second === undefined ? { page: "agents", params: {} } : { page: "agent", params: { id: second } };
    case "chat":
      return { page: "chat", params: named({ agent: second, context: third }) };
    case "tasks":
      if (second === undefined) return { page: "tasks", params: {} };
      return third === undefined
        ? { page: "not_found", params: {} }
        : { page: "task", params: { agent: second, id: third } };
    case "compare":
    case "approvals":
    case "wire":
    case "check":
      return { page: first, params: {} };
    case "operate":
      return { page: "operate", params: named({ section: second, item: third }) };
    default:
      return { page: "not_found", params: {} };
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of the page: path and search, without the origin. */
export const address = signal(currentAddress());

export const route = computed<Route>(() => parse(address.value.split("?", 1)[0]!));

/** The search of the address. Reads a signal, so components follow it. */
export const query = computed(() => new URLSearchParams(address.value.split("?")[1] ?? ""));

/** Counts navigations to another page; the shell moves the focus when it changes. */
export const navigations = signal(0);

function currentAddress(): string {
  return typeof location === "undefined" ? `${BASE}/` : location.pathname + location.search;
}

/** Go to a link of the console. `replace` leaves no entry in the history. */
export function navigate(href: string, options: { replace?: boolean } = {}): void {
  const [before = ""] = address.value.split("?", 1);
  const [after = ""] = href.split("?", 1);
  if (options.replace || href === address.value) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  address.value = href;
  if (before !== after) navigations.value++;
}

/** Change the search of this page: a filter, a tab. Members that are null or empty are removed. */
export function setQuery(changes: Record<string, string | null | undefined>, options: { push?: boolean } = {}): void {
  const next = new URLSearchParams(query.peek());
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  const path = address.peek().split("?", 1)[0]!;
  navigate(text ? `${path}?${text}` : path, { replace: !options.push });
}

/** Whether a click is to be handled here: a plain click on a link into the console that opens nothing else. */
export function isInternalClick(event: MouseEvent, link: HTMLAnchorElement | null): link is HTMLAnchorElement {
  return (
    link !== null && event.button === 0 && !event.defaultPrevented &&
    !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey &&
    (!link.target || link.target === "_self") && !link.hasAttribute("download") &&
    link.origin === location.origin && parse(link.pathname).page !== "not_found"
  );
}

/** Handle links and the back button from now on. */
export function startRouter(): void {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!isInternalClick(event, link)) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
  addEventListener("popstate", () => {
    const before = address.value.split("?", 1)[0];
    address.value = currentAddress();
    if (before !== location.pathname) navigations.value++;
  });
}

/** The title of the document: `setTitle("Tasks")` → "Tasks · Parley". Pages call it when they know a better one. */
export function setTitle(title: string): void {
  document.title = title ? `${title} · Parley` : "Parley console";
}
