import { render } from "preact";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { agentList } from "./api/agents.ts";
import { csrfToken } from "./api/http.ts";
import { actForTenant, logOut, session } from "./api/session.ts";
import type { Session } from "./api/types.ts";
import { App, begin, linkProblem } from "./app.tsx";
import { navigate } from "./router.ts";

const SESSION: Session = {
  csrf: "token-1",
  server: { kind: "serve", name: "Currency", version: "0.1.0", url: "http://127.0.0.1:8080" },
  is_logged_in: false,
  needs_login: true,
  caller: null,
  schemes: [{ name: "bearer", kind: "http", scheme: "bearer", description: "", fields: [{ name: "token", label: "Token", is_secret: true, is_required: true }], flow: "form" }],
  features: ["agents", "chat", "tasks"],
  build: "1",
};
const LOGGED_IN: Session = { ...SESSION, is_logged_in: true };

const requests: { method: string; path: string; body: unknown; csrf: string | undefined }[] = [];
let replies: Record<string, () => Response | Promise<Response>> = {};

beforeEach(() => {
  requests.length = 0;
  history.replaceState(null, "", "/console/");
  session.value = null;
  agentList.value = null;
  csrfToken.value = "";
  linkProblem.value = "";
  replies = {
    "GET /console/api/session": () => Response.json(SESSION),
    "GET /console/api/stream": () => new Promise((resolve) => setTimeout(() => resolve(new Response("{}", { status: 503 })), 1)),
  };
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    const path = url.split("?")[0]!;
    const headers = init.headers as Record<string, string>;
    requests.push({ method: init.method!, path, csrf: headers["X-Parley-Csrf"], body: init.body ? JSON.parse(String(init.body)) : null });
    return replies[`${init.method} ${path}`]?.() ?? new Response("{}", { status: 404 });
  });
  document.body.replaceChildren(Object.assign(document.createElement("div"), { id: "app" }));
});

afterEach(() => {
  render(null, document.getElementById("app")!);
  vi.unstubAllGlobals();
});

async function shown(text: string): Promise<void> {
  await vi.waitFor(() => expect(document.body.textContent).toContain(text), { timeout: 3000 });
}

async function start(): Promise<void> {
  render(<App />, document.getElementById("app")!);
  await begin();
}

// First, because the page has one stream, which is idle only now.
test("a stream that the server refuses is asked for again after a pause", async () => {
  replies["GET /console/api/session"] = () => Response.json(LOGGED_IN);
  await start();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(requests.filter(({ path }) => path.endsWith("/stream"))).toHaveLength(1); // the first pause is 250 ms at least
});

test("a token that is typed into the form logs in, and is nowhere in the page afterwards", async () => {
  replies["POST /console/api/session/login"] = () => Response.json(LOGGED_IN);
  await start();
  await shown("Log in to Currency");
  const field = document.querySelector("input")!;
  field.value = "the-secret";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await vi.waitFor(() => expect(document.querySelector("input")!.value).toBe("the-secret"));
  document.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
  await vi.waitFor(() => expect(document.querySelector("nav")).not.toBeNull(), { timeout: 3000 });
  expect(requests.find((each) => each.path.endsWith("/login"))).toEqual({
    method: "POST", path: "/console/api/session/login", csrf: "token-1", body: { scheme: "bearer", values: { token: "the-secret" } },
  });
  expect(document.documentElement.outerHTML + location.href + JSON.stringify({ ...localStorage })).not.toContain("the-secret");
});

test("a one-time link logs in, and its code leaves the address first", async () => {
  history.replaceState(null, "", "/console/#once=CODE");
  replies["GET /console/api/session"] = () => {
    expect(location.hash).toBe("");
    return Response.json(SESSION);
  };
  replies["POST /console/api/session/login"] = () => Response.json(LOGGED_IN);
  await start();
  expect(requests.find((each) => each.path.endsWith("/login"))?.body).toEqual({ once: "CODE" });
  await vi.waitFor(() => expect(document.querySelector("nav")).not.toBeNull());
});

test("a link that was used before says so, and the form is there", async () => {
  history.replaceState(null, "", "/console/#once=OLD");
  replies["POST /console/api/session/login"] = () =>
    Response.json({ error: { code: "unauthenticated", message: "The link was used already." } }, { status: 401 });
  await start();
  await shown("The link was used already.");
  expect(document.querySelector("input[type=password]")).not.toBeNull();
});

test("the navigation shows what the server offers, and nothing else", async () => {
  replies["GET /console/api/session"] = () => Response.json(LOGGED_IN);
  await start();
  await vi.waitFor(() => expect(document.querySelector("nav")).not.toBeNull());
  expect([...document.querySelectorAll("nav a")].map((link) => link.textContent)).toEqual(["Home", "Agents", "Chat", "Tasks"]);
});

test("a server that does not answer is said in words, with a button", async () => {
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("Failed to fetch");
  });
  await start();
  await shown("The server does not answer.");
  expect(document.querySelector("button")?.textContent).toBe("Try again");
});

test.each([["logging out", logOut], ["another tenant", () => actForTenant("2")]])(
  "a page begins anew when %s fails, since it was forgotten what it held",
  async (_, leave) => {
    replies["GET /console/api/session"] = () => Response.json({ ...LOGGED_IN, caller: { name: "ada", tenant: "1", scopes: [] } });
    replies["GET /console/api/agents"] = () => Response.json({ agents: [], sources: [] });
    navigate("/console/");
    await start();
    await shown("There are no agents yet");
    await expect(leave()).rejects.toThrow();
    await shown("There are no agents yet");
    expect(requests.filter(({ path }) => path === "/console/api/agents")).toHaveLength(2);
  },
);
