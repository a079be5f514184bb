import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { api, ApiError, csrfToken, isRefused, native, path, withQuery } from "./http.ts";

const calls: { url: string; init: RequestInit }[] = [];
let reply = () => new Response("{}");

beforeEach(() => {
  calls.length = 0;
  csrfToken.value = "the-token";
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    calls.push({ url, init });
    return reply();
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
  isRefused.value = false;
});

const headersOf = (index: number) => calls[index]!.init.headers as Record<string, string>;

test("every request of the session has the CSRF token in its header, and none in its URL", async () => {
  reply = () => new Response("{}");
  await api.get("/tasks", { query: { state: ["working", "failed"], text: "", agent: undefined, limit: 50 } });
  await api.post("/agents", { url: "https://x.example" });
  await api.delete("/agents/a");
  await native.get("/v1/agents");
  expect(calls.map((call) => call.url)).toEqual([
    "/console/api/tasks?state=working&state=failed&limit=50", "/console/api/agents", "/console/api/agents/a", "/v1/agents",
  ]);
  for (const index of [0, 1, 2, 3]) {
    expect(headersOf(index)["X-Parley-Csrf"]).toBe("the-token");
    expect(calls[index]!.init.credentials).toBe("same-origin");
  }
  expect(calls[1]!.init.body).toBe('{"url":"https://x.example"}');
});

test("without a session there is no CSRF header", async () => {
  csrfToken.value = "";
  await api.get("/session");
  expect(headersOf(0)).not.toHaveProperty("X-Parley-Csrf");
});

test("an error of the API keeps its code, words and path", async () => {
  reply = () => new Response(JSON.stringify({ error: { code: "not_found", message: "There is no task 7", path: "$.id" } }), { status: 404 });
  const error = await api.get("/tasks/7").catch((raised: unknown) => raised);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ code: "not_found", message: "There is no task 7", status: 404, path: "$.id" });
});

test("a failure without JSON is named by its status", async () => {
  reply = () => new Response("<h1>Bad gateway</h1>", { status: 502 });
  await expect(api.get("/agents")).rejects.toMatchObject({ status: 502, message: "The server replied with status 502." });
});

test("a refused request says so, but a refused login does not", async () => {
  reply = () => new Response("{}", { status: 401 });
  await expect(api.post("/session/login", {})).rejects.toMatchObject({ status: 401 });
  expect(isRefused.value).toBe(false);
  await expect(api.get("/tasks")).rejects.toMatchObject({ status: 401 });
  expect(isRefused.value).toBe(true);
});

test("a server that does not answer is an error in words", async () => {
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("Failed to fetch");
  });
  await expect(api.get("/tasks")).rejects.toMatchObject({ code: "offline", message: expect.stringContaining("does not answer") });
});

test("parts of a path are escaped", () => {
  expect(path("tasks", "a/b?c#d", "log", 7)).toBe("/tasks/a%2Fb%3Fc%23d/log/7");
  expect(withQuery("/x?a=1", { b: "ü&" })).toBe("/x?a=1&b=%C3%BC%26");
});
