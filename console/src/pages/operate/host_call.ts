// Calls of the native API with what the plain `native` calls lack: replies of other types, and whole error bodies.
// The host writes errors as {"error": "$.goal: is required", …}; `path` and `reason` are its two parts.

import { ApiError, errorOf, isRefused, request as fetchAsSession, type Query, type RequestOptions } from "../../api/http.ts";
import type { Row } from "./section.ts";

export interface HostRequest extends RequestOptions {
  /** A file, or what becomes JSON. */
  body?: unknown;
  /** Statuses beside 200 to 299 that are replies and no errors. */
  accepts?: readonly number[];
}

/** The host refused a request. `details` is the rest of the body, such as the diff of a conflict. */
export class HostError extends ApiError {
  readonly reason: string;
  readonly details: Row;

  constructor(known: ApiError, details: Row) {
    const [path, reason] = splitPath(known.message);
    super(known.code, known.message, known.status, known.path || path);
    this.name = "HostError";
    this.reason = reason;
    this.details = details;
  }
}

/** Splits `$.goal: is required` into the path of the member and what is wrong with it. */
export function splitPath(message: string): [string, string] {
  const found = /^(\$[\w.[\]'"-]*|[a-z_]+): (.*)$/s.exec(message);
  return found ? [found[1]!, found[2]!] : ["", message];
}

/** Send a request as the session, and return the reply if its status is a success. Raises HostError or ApiError. */
export async function send(method: string, url: string, request: HostRequest = {}): Promise<Response> {
  const response = await fetchAsSession(method, url, request.body, request);
  if (response.ok || request.accepts?.includes(response.status)) return response;
  if (response.status === 401) isRefused.value = true;
  const details = (await response.clone().json().catch(() => ({}))) as Row;
  throw new HostError(await errorOf(response), details);
}

/** Send a request and read the JSON of the reply. Raises HostError or ApiError. */
export async function call<T = Row>(method: string, url: string, request?: HostRequest): Promise<T> {
  const text = await (await send(method, url, request)).text();
  return (text ? JSON.parse(text) : {}) as T;
}

/** Save a reply as a file. A link would not do: requests of a session need a header. Raises HostError or ApiError. */
export async function download(url: string, name: string, query?: Query): Promise<void> {
  const response = await send("GET", url, { headers: { Accept: "*/*" }, ...(query && { query }) });
  saveBlob(await response.blob(), name);
}

export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
