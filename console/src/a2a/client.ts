// Calls to agents with A2A 1.0 over JSON-RPC, at the path that the console's API names (`agent.url`).
// Streams go over the page's one stream (api/stream.ts): `sendStreaming` and `subscribe` open a channel there.
// Failures are `AgentError` (the agent replied with a JSON-RPC error) or ApiError (there was no such reply).

import { errorOf, request } from "../api/http.ts";
import { openChannel, type Channel } from "../api/stream.ts";
import type {
  JsonObject, JsonRpcError, JsonRpcRequest, JsonRpcResponse, ListTasksRequest, ListTasksResponse, Message, Part,
  SendRequest, SendResponse, StreamResponse, Task,
} from "./types.ts";

/** An agent refused a request, or failed. */
export class AgentError extends Error {
  readonly code: number;

  constructor(error: JsonRpcError) {
    super(error.message || `The agent replied with error ${error.code}.`);
    this.name = "AgentError";
    this.code = error.code;
  }
}

/** The error code of A2A 1.0, section 9.5, that the page reacts to. */
export const UNSUPPORTED_OPERATION = -32004;

let calls = 0;

/** A request of A2A 1.0. */
export function rpc(method: string, params: object): JsonRpcRequest {
  return { jsonrpc: "2.0", id: `console-${++calls}`, method, params: params as JsonObject };
}

/** A new message id, context id or the like. */
export function newId(): string {
  // randomUUID exists only on secure origins; loopback is one, a host behind plain HTTP is not.
  if (crypto.randomUUID) return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A message of the user. */
export function userMessage(parts: Part[], to: { contextId?: string; taskId?: string } = {}): Message {
  return { messageId: newId(), role: "ROLE_USER", parts, ...to };
}

async function call<T>(url: string, method: string, params: object, signal?: AbortSignal): Promise<T> {
  const response = await request("POST", url, rpc(method, params), signal ? { signal } : {});
  const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
  if (!response.ok && !isJson) throw await errorOf(response);
  const text = await response.clone().text();
  let reply: JsonRpcResponse;
  try {
    reply = JSON.parse(text) as JsonRpcResponse;
  } catch {
    throw await errorOf(response);
  }
  if (reply.error && typeof reply.error.code === "number") throw new AgentError(reply.error);
  if (!response.ok) throw await errorOf(response);
  return reply.result as T;
}

/** Send a message and wait for the reply: a task or a message. */
export function sendMessage(url: string, params: SendRequest, signal?: AbortSignal): Promise<SendResponse> {
  return call(url, "SendMessage", params, signal);
}

/** A task as it stands. */
export function getTask(url: string, id: string, options: { historyLength?: number; signal?: AbortSignal } = {}): Promise<Task> {
  const { signal, ...rest } = options;
  return call(url, "GetTask", { id, ...rest }, signal);
}

/** A page of the caller's tasks with an agent. */
export function listTasks(url: string, params: ListTasksRequest = {}, signal?: AbortSignal): Promise<ListTasksResponse> {
  return call(url, "ListTasks", params, signal);
}

/** Ask the agent to stop a task; the reply is the task afterwards. */
export function cancelTask(url: string, id: string): Promise<Task> {
  return call(url, "CancelTask", { id });
}

export interface StreamHandlers {
  /** An event with its number, or null if the agent does not number them. */
  onEvent: (event: StreamResponse, number: number | null) => void;
  /** The stream is complete: the task ended or waits for its caller. */
  onEnd?: () => void;
  /** It failed for good. An AgentError if the agent said so. */
  onError?: (error: Error) => void;
  /** The number of the last event that is known already; none for a new stream. */
  after?: number | null;
}

function openStream(url: string, message: JsonRpcRequest, handlers: StreamHandlers): Channel {
  const channel = openChannel(
    { kind: "a2a", url, request: message },
    {
      cursor: handlers.after ?? null,
      onData: ({ id, response }) => {
        if (response.error) {
          channel.close();
          handlers.onError?.(new AgentError(response.error));
        } else {
          handlers.onEvent(response.result as unknown as StreamResponse, id);
        }
      },
      ...(handlers.onEnd ? { onEnd: handlers.onEnd } : {}),
      ...(handlers.onError ? { onError: handlers.onError } : {}),
    },
  );
  return channel;
}

/** Send a message and follow the reply. It survives lost connections: the channel goes on after the last number. */
export function sendStreaming(url: string, params: SendRequest, handlers: StreamHandlers): Channel {
  return openStream(url, rpc("SendStreamingMessage", params), handlers);
}

/** Follow a task that runs. The first event is the task as it stands, unless `after` is given. */
export function subscribe(url: string, taskId: string, handlers: StreamHandlers): Channel {
  return openStream(url, rpc("SubscribeToTask", { id: taskId }), handlers);
}
