// Whose conversations are listed, and that those of one caller are neither shown to the next nor followed for it.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { logIn, logOut, session } from "../../api/session.ts";
import type { Agent, Session } from "../../api/types.ts";
import { forgetConversation, fresh, keepConversation, openConversation, rows } from "./conversations.ts";
import { UNKNOWN_DELIVERY } from "./following.ts";

const AGENT: Agent = {
  id: "r-1", name: "Far", description: "", kind: "remote", url: "/console/remote/r-1", address: "https://far.example", version: "1.0",
  binding: "JSONRPC", state: "ready", error: null, skills: 0, streams: true,
};

function sessionOf(name: string): Session {
  return {
    csrf: `of ${name}`, server: { kind: "host", name: "Parley", version: "1", url: "http://127.0.0.1" }, is_logged_in: name !== "", needs_login: true,
    caller: name ? { name, tenant: "1", tenant_name: "", scopes: [], is_operator: false } : null, schemes: [], features: [], build: "1",
  };
}

/** Who logs in next. */
let next = "";

beforeEach(() => {
  sessionStorage.clear();
  vi.stubGlobal("fetch", async (url: string) => {
    if (url.endsWith("/session/login")) return Response.json(sessionOf(next));
    if (url.endsWith("/session") || url.endsWith("/session/logout")) return Response.json(sessionOf(""));
    return Response.json({}, { status: 503 });
  });
});

afterEach(async () => {
  await logOut();
  session.value = null;
});

async function logInAs(name: string): Promise<void> {
  next = name;
  await logIn("bearer", { token: name });
}

test("the list of a caller who is logged in survives a reload of the page", async () => {
  const row = { agent: "r-1", context: "c-1", title: "hello", at: "2026-01-01T00:00:00Z" };
  sessionStorage.setItem('parley-conversations:["1","ada"]', JSON.stringify([row]));
  expect(rows.value).toEqual([]);
  await logInAs("ada");
  expect(rows.value).toEqual([row]);
});

test("what one caller has said is not shown to the next, who gets a list of its own", async () => {
  await logInAs("ada");
  const conversation = openConversation(AGENT, "c-1");
  keepConversation(conversation, "a secret of ada");
  await logOut();
  await logInAs("bob");
  expect(rows.value).toEqual([]);
  expect(openConversation(AGENT, "c-1")).not.toBe(conversation);
  await logOut();
  await logInAs("ada");
  expect(rows.value.map((row) => row.title)).toEqual(["a secret of ada"]);
});

test("what another caller comes to after the session has ended is empty, and the same caller goes on", async () => {
  await logInAs("ada");
  const conversation = openConversation(AGENT, "c-1");
  session.value = sessionOf("");
  await logInAs("ada");
  expect(openConversation(AGENT, "c-1")).toBe(conversation);
  session.value = sessionOf("");
  await logInAs("bob");
  expect(openConversation(AGENT, "c-1")).not.toBe(conversation);
});

test("a message that is under way when its caller leaves is followed no more, and so never sent as the next one", async () => {
  await logInAs("ada");
  const conversation = openConversation(AGENT, "");
  fresh.add(conversation);
  const exchange = conversation.send([{ text: "run this" }]);
  await logOut();
  expect(fresh.size).toBe(0);
  conversation.lose();
  expect(exchange.phase).toBe("sending"); // nobody follows it: a loss of the connection would have been noted
});

test("a message to an agent elsewhere is not sent again when the connection breaks while another page is shown", async () => {
  await logInAs("ada");
  const conversation = openConversation(AGENT, "");
  fresh.add(conversation);
  const exchange = conversation.send([{ text: "run this once" }]); // the server of this test refuses the stream
  await vi.waitFor(() => expect(exchange.phase).toBe("unsent"));
  expect(exchange.error).toBe(UNKNOWN_DELIVERY);
});

test("nor is it if its conversation is taken off the list meanwhile", async () => {
  await logInAs("ada");
  const conversation = openConversation(AGENT, "c-1");
  const exchange = conversation.send([{ text: "run this once" }]);
  keepConversation(conversation, "run this once");
  forgetConversation(rows.value[0]!);
  expect(rows.value).toEqual([]);
  await vi.waitFor(() => expect(exchange.phase).toBe("unsent"), { timeout: 10_000 });
  expect(exchange.error).toBe(UNKNOWN_DELIVERY);
}, 15_000);
