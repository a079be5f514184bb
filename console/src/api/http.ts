// Requests to the server as the session: same origin, JSON, the CSRF header on every one.
// It does not know what is asked; shapes are in types.ts. `api` is relative to /console/api, `native` to the origin.
// Failures are `ApiError`, whose message may be shown to the user as it is.

import { signal } from "../signals.ts";
import type { ErrorBody, ErrorCode } from "./types.ts";

export const API = "/console/api";
const CSRF_HEADER = "X-Parley-Csrf";

/** The CSRF token of the session, which api/session.ts sets. */
export const csrfToken = signal("");

/** True after a request was refused because the session has no valid credentials; the shell shows the login then. */
export const isRefused = signal(false);

export type Query = Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>;

export interface RequestOptions {
  query?: Query;
  signal?: AbortSignal;
  /** Beside or instead of the usual ones. */
  headers?: Record<string, string>;
}

/** A request that failed: `code` as in the API, `offline` if no reply came. */
export class ApiError extends Error {
  readonly code: ErrorCode | "offline";
  readonly status: number;
  /** The part of the body that is at fault, such as `$.agent`; empty if none is named. */
  readonly path: string;

  constructor(code: ErrorCode | "offline", message: string, status = 0, path = "") {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = status;
    this.path = path;
  }
}

/** What to tell the user about anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error && error.message ? error.message : String(error);
}

/** Whether an error is only the caller's own cancellation. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** A URL with a query; null, undefined and empty values are left out, lists are repeated. */
export function withQuery(path: string, query: Query = {}): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") words.append(name, String(each));
    }
  }
  const text = words.toString();
  return text ? `${path}${path.includes("?") ? "&" : "?"}${text}` : path;
}

/** A path of parts, each escaped: `path("tasks", id, "log")`. */
export function path(...parts: (string | number)[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/** Fetch with the session's CSRF token. The body is a file, or becomes JSON. Raises ApiError if no reply comes; does not look at the status. */
export async function request(method: string, url: string, body?: unknown, options: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (csrfToken.value) headers[CSRF_HEADER] = csrfToken.value;
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body instanceof Blob) init.body = body;
  else if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  if (options.signal) init.signal = options.signal;
  try {
    return await fetch(withQuery(url, options.query), init);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError("offline", "The server does not answer. It may be stopped or restarting.");
  }
}

/** The error that a failed reply describes, in the words of the API where it has any. */
export async function errorOf(response: Response): Promise<ApiError> {
  let found: Partial<ErrorBody> = {};
  try {
    // The native API has {"error": {...}} as well; an agent's reply is a JSON-RPC error with code and message.
    const body = (await response.json()) as { error?: Partial<ErrorBody> | string; message?: string };
    found = typeof body.error === "object" ? body.error : { message: String(body.error ?? body.message ?? "") };
  } catch {
    // not JSON: the status says it
  }
  const code = typeof found.code === "string" ? found.code : "internal"; // the status says more
  const message = found.message || `The server replied with status ${response.status}.`;
  return new ApiError(code, message, response.status, found.path ?? "");
}

async function call<T>(method: string, url: string, body?: unknown, options?: RequestOptions): Promise<T> {
  const response = await request(method, url, body, options);
  if (!response.ok) {
    const error = await errorOf(response);
    if (response.status === 401 && !url.endsWith("/login")) isRefused.value = true;
    throw error;
  }
  const text = await response.text();
  return (text ? JSON.parse(text) : {}) as T;
}

function caller(prefix: string) {
  return {
    get: <T>(path: string, options?: RequestOptions) => call<T>("GET", prefix + path, undefined, options),
    post: <T>(path: string, body: unknown = {}, options?: RequestOptions) => call<T>("POST", prefix + path, body, options),
    delete: <T>(path: string, options?: RequestOptions) => call<T>("DELETE", prefix + path, undefined, options),
  };
}

/** The console's API: `api.get<TaskPage>("/tasks", { query: { limit: 50 } })`. All raise ApiError. */
export const api = caller(API);

/** The native API of a host, and anything else of this origin: `native.get("/v1/agents")`. All raise ApiError. */
export const native = caller("");
