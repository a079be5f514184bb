// The page's one stream: channels that are opened, read and closed over a single connection of server-sent events.
// When the connection breaks, it is made again after a growing pause, and every channel is opened again with the cursor
// that it has reached, so that nothing is lost or read twice. `connection` says what the user should know.
// Contract: docs/console-api.md, "One stream for everything".

import { signal } from "../signals.ts";
import { API, ApiError, request as fetchAsSession } from "./http.ts";
import { loadSession } from "./session.ts";
import { SseDecoder } from "./sse.ts";
import type { ChannelData, ChannelKind, ChannelRequest, ErrorBody } from "./types.ts";

export interface ChannelHandlers<Kind extends ChannelKind> {
  /** `isFirst` is true for the first data after every opening: a `task_list` starts with a whole page then. */
  onData: (data: ChannelData[Kind], isFirst: boolean) => void;
  /** The channel is complete. */
  onEnd?: () => void;
  /** It failed for good; failures that pass are not reported. */
  onError?: (error: ApiError) => void;
  /** The number of the last event that is known already, for `a2a` and `task_log`. */
  cursor?: number | null;
}

export interface Channel {
  /** The number of the last event received. */
  readonly cursor: number | null;
  close(): void;
}

export type Connection =
  | { state: "idle" }
  | { state: "connecting" }
  | { state: "connected"; since: number }
  /** `since` is when the connection was lost, `retryAt` when the next attempt begins (milliseconds of the clock). */
  | { state: "reconnecting"; since: number; retryAt: number };

/** What the stream needs from its surroundings; tests give their own. */
export interface StreamEnvironment {
  request: typeof fetchAsSession;
  /** Called when the server refuses the stream, and after every reconnection. */
  refreshSession: () => Promise<unknown>;
  setTimer: (callback: () => void, milliseconds: number) => unknown;
  clearTimer: (timer: unknown) => void;
  now: () => number;
  random: () => number;
}

export const FIRST_PAUSE_MS = 500;
export const LONGEST_PAUSE_MS = 20_000;
/** The server sends a comment every 15 seconds. */
export const SILENCE_MS = 40_000;

/** The pause before an attempt: doubled each time up to a limit, and half of it random, so that pages spread. */
export function pauseBefore(attempt: number, random: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10)) * (0.5 + random / 2);
}

interface Frame {
  page?: string;
  channel?: string;
  data?: unknown;
  end?: boolean;
  error?: ErrorBody;
  is_final?: boolean;
}

class OpenChannel implements Channel {
  cursor: number | null;
  /** The name on the current connection; a new one for every opening, so that late frames of an old one are dropped. */
  name = "";
  isFirst = true;
  isClosed = false;
  attempt = 0;
  timer: unknown = null;

  constructor(
    readonly request: ChannelRequest,
    readonly handlers: ChannelHandlers<ChannelKind>,
    private readonly onClose: (channel: OpenChannel) => void,
  ) {
    this.cursor = handlers.cursor ?? null;
  }

  close(): void {
    if (!this.isClosed) this.onClose(this);
  }

  take(data: unknown): void {
    this.attempt = 0;
    const isFirst = this.isFirst;
    this.isFirst = false;
    this.cursor = cursorAfter(this.request.kind, data, this.cursor);
    this.handlers.onData(data as never, isFirst);
  }
}

/** The cursor after a frame: the number of its last event, where the kind has numbers. */
export function cursorAfter(kind: ChannelKind, data: unknown, cursor: number | null): number | null {
  if (kind === "a2a") return (data as ChannelData["a2a"]).id ?? cursor;
  if (kind === "task_log") return (data as ChannelData["task_log"]).events.at(-1)?.seq ?? cursor;
  return cursor;
}

export class PageStream {
  readonly connection = signal<Connection>({ state: "idle" });
  private readonly channels = new Set<OpenChannel>();
  private readonly byName = new Map<string, OpenChannel>();
  private page = "";
  private names = 0;
  private attempt = 0;
  private lostAt = 0;
  private abort: AbortController | null = null;
  private retryTimer: unknown = null;
  private silenceTimer: unknown = null;

  constructor(private readonly environment: StreamEnvironment) {}

  open<Kind extends ChannelKind>(
    request: Extract<ChannelRequest, { kind: Kind }>, handlers: ChannelHandlers<Kind>,
  ): Channel {
    const channel = new OpenChannel(request, handlers as ChannelHandlers<ChannelKind>, (each) => this.close(each));
    this.channels.add(channel);
    if (this.page) void this.send(channel);
    else this.connect();
    return channel;
  }

  /** Connect if there is no connection. While waiting for the next attempt, it begins at once. */
  connect(): void {
    if (this.abort) return;
    this.environment.clearTimer(this.retryTimer);
    const abort = (this.abort = new AbortController());
    if (this.connection.value.state === "idle") this.connection.value = { state: "connecting" };
    this.read(abort)
      .catch(() => undefined)
      .finally(() => {
        if (this.abort === abort) this.lose();
      });
  }

  /** Give the connection up, and make it again with everything that is open: after another login, for instance. */
  reconnect(): void {
    this.attempt = 0;
    if (this.abort) this.lose();
    this.connect();
  }

  private async read(abort: AbortController): Promise<void> {
    this.watch(abort);
    const response = await this.environment.request("GET", `${API}/stream`, undefined, {
      signal: abort.signal,
      headers: { Accept: "text/event-stream" },
    });
    if (response.status === 401 || response.status === 403) await this.environment.refreshSession();
    if (!response.ok || !response.body) return;
    const decoder = new TextDecoder();
    const events = new SseDecoder((data) => this.take(JSON.parse(data) as Frame, abort));
    const reader = response.body.getReader();
    for (let piece = await reader.read(); !piece.done && this.abort === abort; piece = await reader.read()) {
      this.watch(abort);
      events.feed(decoder.decode(piece.value, { stream: true }));
    }
  }

  private watch(abort: AbortController): void {
    this.environment.clearTimer(this.silenceTimer);
    this.silenceTimer = this.environment.setTimer(() => {
      if (this.abort === abort) this.lose();
    }, SILENCE_MS);
  }

  private lose(): void {
    const now = this.environment.now();
    this.abort?.abort();
    this.abort = null;
    this.page = "";
    this.byName.clear();
    for (const channel of this.channels) this.environment.clearTimer(channel.timer);
    this.environment.clearTimer(this.silenceTimer);
    if (this.connection.value.state !== "reconnecting") this.lostAt = now;
    const pause = pauseBefore(this.attempt++, this.environment.random());
    this.connection.value = { state: "reconnecting", since: this.lostAt, retryAt: now + pause };
    this.retryTimer = this.environment.setTimer(() => this.connect(), pause);
  }

  private take(frame: Frame, abort: AbortController): void {
    if (this.abort !== abort) return;
    if (frame.page) return void this.begin(frame.page, abort);
    const channel = this.byName.get(frame.channel ?? "");
    if (!channel) return;
    this.attempt = 0;
    if (frame.error) this.fail(channel, frame.error, frame.is_final !== false);
    else if (frame.end) {
      this.forget(channel);
      channel.handlers.onEnd?.();
    } else channel.take(frame.data);
  }

  private async begin(page: string, abort: AbortController): Promise<void> {
    if (this.connection.value.state === "reconnecting") {
      // The server may be of another version now, or the session another caller's: what is not for that one is closed first.
      const isRead = await this.environment.refreshSession().then(() => true, () => false);
      if (this.abort !== abort) return;
      if (!isRead) return this.lose();
    }
    this.page = page;
    for (const channel of this.channels) void this.send(channel);
    // Last, because those who wait for it open channels.
    this.connection.value = { state: "connected", since: this.environment.now() };
  }

  private async send(channel: OpenChannel): Promise<void> {
    const page = this.page;
    const name = (channel.name = `c${++this.names}`);
    channel.isFirst = true;
    this.byName.set(name, channel);
    const after = channel.cursor === null ? {} : { after: channel.cursor };
    try {
      const body = { channel: name, ...channel.request, ...after };
      const response = await this.environment.request("POST", `${API}/stream/${page}/open`, body);
      if (response.ok || page !== this.page || channel.isClosed) return;
      // The server does not know this page any more: it was restarted, and the connection will break, or already has.
      if (response.status === 404 || response.status === 401) this.lose();
      else if (response.status >= 500 || response.status === 429) this.openLater(channel);
      else this.fail(channel, await bodyOf(response), true);
    } catch {
      if (page === this.page && !channel.isClosed) this.openLater(channel);
    }
  }

  private fail(channel: OpenChannel, error: ErrorBody, isFinal: boolean): void {
    if (!isFinal) return this.openLater(channel);
    this.forget(channel);
    channel.handlers.onError?.(new ApiError(error.code, error.message, 0, error.path ?? ""));
  }

  private openLater(channel: OpenChannel): void {
    this.byName.delete(channel.name);
    const pause = pauseBefore(channel.attempt++, this.environment.random());
    channel.timer = this.environment.setTimer(() => {
      if (this.page && !channel.isClosed) void this.send(channel);
    }, pause);
  }

  private close(channel: OpenChannel): void {
    const { page } = this;
    const isOpen = this.byName.has(channel.name);
    this.forget(channel);
    if (!page || !isOpen) return;
    this.environment
      .request("POST", `${API}/stream/${page}/close`, { channel: channel.name })
      .catch(() => undefined);
  }

  private forget(channel: OpenChannel): void {
    channel.isClosed = true;
    this.environment.clearTimer(channel.timer);
    this.byName.delete(channel.name);
    this.channels.delete(channel);
  }
}

async function bodyOf(response: Response): Promise<ErrorBody> {
  try {
    return ((await response.json()) as { error: ErrorBody }).error;
  } catch {
    return { code: "internal", message: `The server replied with status ${response.status}.` };
  }
}

const stream = new PageStream({
  request: fetchAsSession,
  refreshSession: loadSession,
  setTimer: (callback, milliseconds) => setTimeout(callback, milliseconds),
  clearTimer: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
  now: () => Date.now(),
  random: () => Math.random(),
});

/** Whether the page is connected, for the shell and for pages that stop updating without a connection. */
export const connection = stream.connection;

/**
 * Open a channel; close it when the component goes away.
 *
 *     const channel = openChannel({ kind: "tree", task, agent }, { onData: (tree) => (shown.value = tree) });
 *     return () => channel.close();
 */
export function openChannel<Kind extends ChannelKind>(
  request: Extract<ChannelRequest, { kind: Kind }>, handlers: ChannelHandlers<Kind>,
): Channel {
  return stream.open(request, handlers);
}

/** Connect, or connect again at once instead of after the pause. */
export function connectNow(): void {
  stream.connect();
}

/** Drop the connection and make a new one: the session has changed. */
export function reconnectNow(): void {
  stream.reconnect();
}

/** Connect again at once when the machine is back on the network, or the page is looked at again. */
export function watchNetwork(): void {
  addEventListener("online", () => stream.connect());
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && connection.value.state === "reconnecting") stream.connect();
  });
}
