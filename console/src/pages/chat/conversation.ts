// One conversation with an agent: the exchanges of a context, read from the agent if it lists tasks, and followed live.
// Changes are shown once per animation frame, however many events come. Nothing here draws anything.

import { signal } from "../../signals.ts";
import { getTask, cancelTask, listTasks, sendMessage, sendStreaming, subscribe, userMessage } from "../../a2a/client.ts";
import { api, messageOf } from "../../api/http.ts";
import type { Agent, TaskPage } from "../../api/types.ts";
import type { JsonObject, Message, Part, StreamResponse, Task } from "../../a2a/types.ts";
import { SentenceAnnouncer } from "../../ui/index.ts";
import { Exchange } from "./exchange.ts";
import { Follower, type Environment } from "./following.ts";
import { stepOf } from "./narration.ts";

/** Tasks of a context that are read at first. */
const PAGE = 20;
const HISTORY = 100;
/** Times a second that the page shows what has come. */
const FRAME_MS = 40;

export type Loading = "new" | "loading" | "loaded" | "unknown";

export class Conversation {
  readonly exchanges = signal<readonly Exchange[]>([]);
  readonly contextId = signal("");
  /** `unknown`: the agent lists no tasks, so that only what the page has seen itself is there. */
  readonly loading = signal<Loading>("new");
  readonly problem = signal("");
  /** There are older tasks: how to read them. */
  readonly nextPage = signal("");
  /** Whether it is on the screen, so that screen readers hear it. */
  isShown = false;
  private readonly followers = new Map<Exchange, Follower>();
  private readonly changed = new Set<Exchange>();
  private readonly announcer = new SentenceAnnouncer();
  private isScheduled = false;
  private lastFrame = 0;

  constructor(readonly agent: Agent, contextId = "") {
    this.contextId.value = contextId;
  }

  /** The exchange that waits for the user, if the last one does. */
  get waiting(): Exchange | null {
    const last = this.exchanges.value.at(-1);
    return last?.phase === "waiting" ? last : null;
  }

  // --- reading -------------------------------------------------------------------------------------------------------

  /** Read the tasks of the context from the agent, and follow those that run. */
  async load(): Promise<void> {
    if (!this.contextId.peek()) return;
    this.loading.value = "loading";
    this.problem.value = "";
    try {
      await this.loadPage("");
      this.loading.value = "loaded";
    } catch (error) {
      this.loading.value = "unknown";
      this.problem.value = messageOf(error);
    }
  }

  /** Read the tasks before those that are shown. */
  async loadOlder(): Promise<void> {
    await this.loadPage(this.nextPage.peek());
  }

  private async loadPage(pageToken: string): Promise<void> {
    const contextId = this.contextId.peek();
    const page = await listTasks(this.agent.url, {
      contextId, pageSize: PAGE, historyLength: HISTORY, includeArtifacts: true, ...(pageToken && { pageToken }),
    });
    const begun = await this.beginnings(contextId);
    for (const task of page.tasks ?? []) this.takeRead(task, begun.get(task.id) ?? task.status?.timestamp ?? "");
    const sorted = [...this.exchanges.peek()].sort((one, other) => one.createdAt.localeCompare(other.createdAt));
    this.exchanges.value = sorted;
    this.nextPage.value = page.nextPageToken ?? "";
    for (const exchange of sorted) if (!exchange.isOver && !this.followers.has(exchange)) this.follow(exchange);
  }

  /** When the tasks of the context were begun, which A2A does not say, as far as this server knows. */
  private async beginnings(context: string): Promise<Map<string, string>> {
    if (this.agent.kind !== "own") return new Map();
    try {
      const { tasks } = await api.get<TaskPage>("/tasks", { query: { agent: this.agent.id, context, limit: 200 } });
      return new Map(tasks.map((row) => [row.id, row.created_at ?? row.updated_at]));
    } catch {
      return new Map();
    }
  }

  private takeRead(task: Task, createdAt: string): void {
    const known = this.exchanges.peek().find((exchange) => exchange.taskId === task.id);
    if (known) return;
    const exchange = Exchange.of(task);
    exchange.createdAt = createdAt;
    this.exchanges.value = [...this.exchanges.peek(), exchange];
  }

  // --- sending -------------------------------------------------------------------------------------------------------

  /** Send a message: to a task that waits, or to begin another one. */
  send(parts: Part[], to: { answers?: Exchange | null; metadata?: JsonObject | undefined } = {}): Exchange {
    const { answers } = to;
    const contextId = this.contextId.peek();
    const message: Message = {
      ...userMessage(parts, { ...(contextId && { contextId }), ...(answers && { taskId: answers.taskId }) }),
      ...(to.metadata && { metadata: to.metadata }),
    };
    const exchange = answers ?? new Exchange(message);
    if (!answers) {
      exchange.createdAt = new Date().toISOString();
      this.exchanges.value = [...this.exchanges.peek(), exchange];
    }
    this.followerOf(exchange).send(message);
    this.show();
    return exchange;
  }

  /** Send an answer that did not arrive again, or the first message of an exchange, in a new task. */
  retry(exchange: Exchange): void {
    if (!exchange.message) return;
    const last = exchange.entries.findLast((entry) => entry.kind === "user");
    if (exchange.phase === "unsent" && exchange.taskId && last?.kind === "user") {
      return this.followerOf(exchange).send(last.message);
    }
    if (exchange.phase === "unsent") this.exchanges.value = this.exchanges.peek().filter((each) => each !== exchange);
    this.send(exchange.message.parts, { metadata: exchange.message.metadata });
  }

  /** Ask the agent to stop. Raises AgentError and ApiError. */
  async cancel(exchange: Exchange): Promise<void> {
    const task = await cancelTask(this.agent.url, exchange.taskId);
    // The stream has the end with its number; where there is none, this is it.
    if (exchange.cursor === null || exchange.isOver) exchange.takeTask(task);
    this.onChange(exchange);
  }

  /** Follow nothing any more: the page acts as another caller now, who must not send or read anything here. */
  close(): void {
    for (const follower of this.followers.values()) follower.close();
    this.followers.clear();
  }

  /** Follow a task that was given up. */
  follow(exchange: Exchange): void {
    this.followerOf(exchange).follow();
  }

  lose(): void {
    for (const follower of this.followers.values()) follower.lose();
  }

  regain(): void {
    for (const follower of this.followers.values()) follower.regain();
  }

  private followerOf(exchange: Exchange): Follower {
    this.followers.get(exchange)?.close();
    const environment: Environment = {
      sendStreaming, subscribe, sendMessage, getTask,
      onChange: (each) => this.onChange(each),
      onEvent: (_, event) => this.announce(event),
      wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
      now: () => Date.now(),
    };
    const follower = new Follower(exchange, this.agent, environment);
    this.followers.set(exchange, follower);
    return follower;
  }

  // --- showing -------------------------------------------------------------------------------------------------------

  private onChange(exchange: Exchange): void {
    if (exchange.contextId && !this.contextId.peek()) this.contextId.value = exchange.contextId;
    if (exchange.isOver) {
      this.followers.get(exchange)?.close();
      this.followers.delete(exchange);
      if (this.isShown) this.announcer.flush();
    }
    this.changed.add(exchange);
    if (this.isScheduled) return;
    this.isScheduled = true;
    const pause = Math.max(0, this.lastFrame + FRAME_MS - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.show()), pause);
  }

  private show(): void {
    this.isScheduled = false;
    this.lastFrame = performance.now();
    for (const exchange of this.changed) exchange.flush();
    this.changed.clear();
  }

  private announce({ artifactUpdate, message }: StreamResponse): void {
    if (!this.isShown) return;
    const parts = artifactUpdate && !stepOf(artifactUpdate.artifact) ? artifactUpdate.artifact.parts : message?.parts;
    for (const part of parts ?? []) if (part.text) this.announcer.add(part.text);
  }
}
