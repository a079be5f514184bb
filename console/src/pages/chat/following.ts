// Follows one exchange at its agent: sends the message, reads the stream, and goes on after a lost connection without
// losing or doubling anything. Numbered streams continue after the last number; others begin with the task as it stands.
// A message is sent again only to agents of this server, which know it by its id; others may have received it already.
// Agents that do not stream are asked for the task again and again.

import type { Agent } from "../../api/types.ts";
import { isInterrupted, isTerminal, type Message, type SendRequest, type SendResponse, type StreamResponse, type Task } from "../../a2a/types.ts";
import { AgentError, UNSUPPORTED_OPERATION, type StreamHandlers } from "../../a2a/client.ts";
import { messageOf } from "../../api/http.ts";
import { durationText } from "../../text/safe.ts";
import type { Exchange } from "./exchange.ts";

/** The calls that it makes, and what it needs besides; tests give their own. */
export interface Environment {
  sendStreaming: (url: string, params: SendRequest, handlers: StreamHandlers) => { close(): void };
  subscribe: (url: string, task: string, handlers: StreamHandlers) => { close(): void };
  sendMessage: (url: string, params: SendRequest) => Promise<SendResponse>;
  getTask: (url: string, task: string) => Promise<Task>;
  /** Called after every change of the exchange. */
  onChange: (exchange: Exchange) => void;
  /** Called for every new event. */
  onEvent: (exchange: Exchange, event: StreamResponse) => void;
  wait: (milliseconds: number) => Promise<void>;
  now: () => number;
}

const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 5_000;
/** How agents refuse a subscription: the task is not known, or not running, or there are none. */
const REFUSALS = new Set([-32001, UNSUPPORTED_OPERATION, -32601, -32602]);

/** Failures in a row after which it gives up, until the user asks again. */
const MAX_FAILURES = 12;

export const UNKNOWN_DELIVERY =
  "The connection was lost before the agent answered. It may have received the message; send it again if nothing happened.";

/** One exchange, followed until it is over or closed. */
export class Follower {
  private channel: { close(): void } | null = null;
  private isClosed = false;
  private cutAt = 0;
  /** It waits for the connection. */
  private isIdle = false;
  private failures = 0;
  /** The agent has shown no sign yet that it has the message. */
  private isUnacknowledged = false;
  /** The message answers with a credential: it cannot be sent again, as nothing keeps it, but the question stays open. */
  private isSecret = false;
  private mayStream: boolean;

  constructor(
    readonly exchange: Exchange, private readonly agent: Pick<Agent, "url" | "kind" | "streams" | "state">, private readonly environment: Environment,
  ) {
    // Nothing is known of an agent that was not called yet; one that does not stream says so.
    this.mayStream = agent.streams || agent.state === "unknown";
  }

  /** Send a message, the first or an answer, and follow the reply. */
  send(message: Message): void {
    // The metadata of an answer is a credential.
    const { metadata, ...kept } = message;
    this.isSecret = Boolean(message.taskId && metadata);
    this.exchange.addUser(this.isSecret ? kept : message);
    this.exchange.setPhase("sending");
    this.isUnacknowledged = true;
    this.changed();
    if (!this.mayStream) return void this.sendAndPoll(message);
    const after = message.taskId ? this.exchange.cursor : null;
    const handlers = this.handlers((error) => {
      const isRefused = error instanceof AgentError && error.code === UNSUPPORTED_OPERATION && this.exchange.phase === "sending";
      if (!isRefused) return this.fail(error);
      this.mayStream = false;
      void this.sendAndPoll(message);
    });
    this.channel = this.environment.sendStreaming(this.agent.url, { message }, { ...handlers, after });
  }

  /** Follow a task that is known already, from the last event on. */
  follow(): void {
    if (this.isClosed || !this.exchange.taskId) return;
    if (!this.mayStream) return void this.poll();
    const handlers = this.handlers((error) => {
      // The task has ended, or cannot be subscribed to, or the server is about to stop.
      if (error instanceof AgentError && REFUSALS.has(error.code)) this.mayStream = false;
      void this.poll();
    });
    this.channel = this.environment.subscribe(this.agent.url, this.exchange.taskId, { ...handlers, after: this.exchange.cursor });
  }

  /** The page has lost its connection. */
  lose(): void {
    if (this.isClosed || !this.channel || this.exchange.isOver) return;
    const isUnsent = !this.exchange.taskId || this.isUnacknowledged;
    if (isUnsent && this.agent.kind !== "own") {
      this.close();
      this.exchange.setPhase(this.isSecret ? "waiting" : "unsent", UNKNOWN_DELIVERY);
      return this.changed();
    }
    this.sayCut();
    // Unconfirmed, the channel sends the message again, with its id: the server knows it. Otherwise the task is followed,
    // which can be done at any time later.
    if (isUnsent) return;
    this.channel.close();
    this.channel = null;
    this.isIdle = true;
  }

  /** The page has its connection back. */
  regain(): void {
    if (this.isClosed || !this.isIdle || this.exchange.isOver) return;
    this.isIdle = false;
    this.failures = 0;
    this.follow();
  }

  close(): void {
    this.isClosed = true;
    this.channel?.close();
    this.channel = null;
  }

  private sayCut(): void {
    if (!this.cutAt) this.cutAt = this.environment.now();
    this.exchange.setPhase("cut");
    this.exchange.addConnection("The connection was lost. The conversation goes on by itself when it is back.");
    this.changed();
  }

  private changed(): void {
    this.environment.onChange(this.exchange);
  }

  private handlers(onError: (error: Error) => void): StreamHandlers {
    return {
      onEvent: (event, number) => {
        if (this.isClosed) return;
        this.isUnacknowledged = false;
        this.resumed();
        if (this.exchange.take(event, number)) {
          this.failures = 0;
          this.environment.onEvent(this.exchange, event);
        }
        this.changed();
      },
      onEnd: () => {
        this.channel = null;
        if (!this.isClosed) this.end();
      },
      onError: (error) => {
        this.channel = null;
        if (!this.isClosed) onError(error);
      },
    };
  }

  /** Say that the connection was lost and is back, at the first sign of it. */
  private resumed(): void {
    if (!this.cutAt) return;
    const time = durationText(this.environment.now() - this.cutAt);
    const { cursor } = this.exchange;
    this.cutAt = 0;
    const where = cursor === null ? "The task was read again" : `It went on after event ${cursor}`;
    this.exchange.addConnection(`The connection was lost for ${time}. ${where}; nothing is missing.`);
    if (this.exchange.phase === "cut") this.exchange.setPhase("running");
  }

  /** The stream is at its end: so is the agent's work, unless the agent has closed it too early. */
  private end(): void {
    if (this.exchange.phase === "ended") return;
    const { status } = this.exchange;
    this.resumed();
    if (status && isTerminal(status.state)) this.exchange.setPhase("ended");
    else if (status && isInterrupted(status.state)) this.exchange.setPhase("waiting");
    else if (this.exchange.taskId) void this.poll();
    else this.exchange.setPhase("unsent", "The agent closed the stream without an answer.");
    this.changed();
  }

  private fail(error: Error): void {
    const { status, taskId } = this.exchange;
    if (taskId && !this.isUnacknowledged) {
      this.sayCut();
      return void this.poll();
    }
    // An answer that was refused leaves the question open, and says why.
    const isOpen = (this.isSecret || error instanceof AgentError) && status !== null && isInterrupted(status.state);
    this.exchange.setPhase(isOpen ? "waiting" : "unsent", messageOf(error));
    this.changed();
  }

  private async sendAndPoll(message: Message): Promise<void> {
    try {
      const { task, message: reply } = await this.environment.sendMessage(this.agent.url, { message, configuration: { returnImmediately: true } });
      if (this.isClosed) return;
      this.isUnacknowledged = false;
      const event: StreamResponse = task ? { task } : { message: reply! };
      this.exchange.take(event, null);
      this.environment.onEvent(this.exchange, event);
      this.changed();
      if (!this.exchange.isOver) await this.poll();
    } catch (error) {
      if (!this.isClosed) this.fail(error as Error);
    }
  }

  /** Read the task; as long as it runs, follow it again after a pause, or read it again if it cannot be followed. */
  private async poll(): Promise<void> {
    while (!this.isClosed && !this.exchange.isOver) {
      try {
        const task = await this.environment.getTask(this.agent.url, this.exchange.taskId);
        // A task has no number: events after the last one would repeat what it says, unless there are none.
        const isNumbered = this.mayStream && this.exchange.cursor !== null;
        if (!isNumbered || isTerminal(task.status.state)) {
          this.exchange.takeTask(task);
          this.resumed();
          this.exchange.cursor = null;
        }
        this.failures = this.mayStream ? this.failures + 1 : 0;
      } catch (error) {
        this.failures++;
        if (error instanceof AgentError || this.failures > MAX_FAILURES) {
          this.isIdle = true;
          this.exchange.setPhase("cut", messageOf(error));
          return this.changed();
        }
      }
      this.changed();
      if (this.exchange.isOver) return;
      await this.environment.wait(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.failures, 6)));
      if (this.mayStream && !this.isClosed && !this.exchange.isOver) return this.follow();
    }
  }
}
