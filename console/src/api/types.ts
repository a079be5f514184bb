// The shapes of the console's API, as docs/console-api.md describes them.
// Names are those of the JSON. A2A objects (cards, tasks, messages) are in a2a/types.ts.
// Times are RFC 3339 strings in UTC.

import type { AgentCard, JsonRpcRequest, JsonRpcResponse, JsonValue, Task } from "../a2a/types.ts";

export type ErrorCode =
  | "bad_request"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "conflict"
  | "too_large"
  | "rate_limited"
  | "unsupported"
  | "unavailable"
  | "agent_error"
  | "internal";

export interface ErrorBody {
  code: ErrorCode;
  message: string;
  path?: string;
}

// --- sessions --------------------------------------------------------------------------------------------------------

export type Feature = "agents" | "chat" | "tasks" | "trees" | "wire" | "checks" | "remote" | "approvals" | "operate";

export interface ServerInfo {
  kind: "serve" | "host" | "proxy" | "console";
  name: string;
  version: string;
  url: string;
}

export interface Caller {
  name: string;
  tenant: string | null;
  tenant_name: string | null;
  scopes: string[];
  is_operator: boolean;
}

export interface Session {
  csrf: string;
  server: ServerInfo;
  is_logged_in: boolean;
  needs_login: boolean;
  caller: Caller | null;
  schemes: Scheme[];
  features: Feature[];
  build: string;
}

export interface SchemeField {
  name: string;
  label: string;
  is_secret: boolean;
  is_required: boolean;
}

export type SchemeKind = "http" | "api_key" | "oauth2" | "openid" | "mutual_tls";
export type LoginFlow = "form" | "redirect" | "device" | "unsupported";

export interface Scheme {
  name: string;
  kind: SchemeKind;
  description: string;
  scheme?: string;
  fields?: SchemeField[];
  flow?: LoginFlow;
  scopes?: Record<string, string>;
  reason?: string;
}

// --- agents ----------------------------------------------------------------------------------------------------------

export type AgentState = "ready" | "stopped" | "needs_login" | "unreachable" | "unknown";

export interface Agent {
  id: string;
  name: string;
  description: string;
  kind: "own" | "catalog" | "remote";
  /** The path at which the browser calls it with A2A 1.0 over JSON-RPC. */
  url: string;
  /** Where the agent really is. */
  address: string;
  version: string;
  binding: string;
  state: AgentState;
  error: string | null;
  skills: number;
  streams: boolean;
}

export interface AgentList {
  agents: Agent[];
  sources: { url: string; error: string | null }[];
}

export interface CardProblem {
  message: string;
  is_fatal: boolean;
}

export interface CardSignature {
  state: "valid" | "invalid" | "unsigned" | "unknown_key";
  detail: string;
}

export interface AgentInterface {
  url: string;
  binding: string;
  version: string;
  tenant: string | null;
  is_used: boolean;
}

export interface AgentLogin {
  is_required: boolean;
  is_logged_in: boolean;
  scheme: string;
}

export interface AgentDetails {
  agent: Agent;
  /** The card in A2A 1.0; null while the agent cannot be reached. */
  card: AgentCard | null;
  card_version: string;
  /** The card as the agent serves it. */
  raw: JsonValue;
  problems: CardProblem[];
  signature: CardSignature;
  interfaces: AgentInterface[];
  schemes: Scheme[];
  login: AgentLogin;
}

export type LoginReply =
  | { state: "done" }
  | { state: "redirect"; url: string }
  | { state: "device"; url: string; code: string; interval: number }
  /** The reply to a poll while the user has not finished at the other device. */
  | { state: "waiting"; interval?: number };

// --- tasks -----------------------------------------------------------------------------------------------------------

/** States in the console's API; A2A objects have `TASK_STATE_…`, see a2a/types.ts. */
export type RowState =
  | "submitted"
  | "working"
  | "input-required"
  | "auth-required"
  | "completed"
  | "failed"
  | "canceled"
  | "rejected"
  | "unknown";

export interface TaskRow {
  id: string;
  agent: string;
  agent_name: string;
  context: string;
  state: RowState;
  tenant: string;
  owner: string;
  created_at: string | null;
  updated_at: string;
  events: number;
  size: number;
  title: string;
  status_text: string;
  created_in: string;
  holder: string;
  parent: string | null;
}

export interface TaskFilter {
  agent?: string;
  state?: RowState[];
  context?: string;
  since?: string;
  until?: string;
  text?: string;
  limit?: number;
  cursor?: string;
  tenant?: string;
}

export interface TaskPage {
  tasks: TaskRow[];
  next: string | null;
  total: number | null;
  searched: { tasks: number; until: string } | null;
}

export interface TaskDetails {
  task: TaskRow;
  snapshot: Task;
  url: string;
  is_live: boolean;
}

export interface LogEvent {
  seq: number;
  kind: string;
  at: string | null;
  size: number;
  pause_ms: number | null;
  summary: string;
  is_streamed: boolean;
  body: JsonValue | null;
}

export interface TaskLog {
  events: LogEvent[];
  last: number;
  oldest: number;
}

/** How one dialect and binding writes an event. */
export interface EventForm {
  version: string;
  binding: string;
  title: string;
  body: JsonValue | null;
  text: string | null;
  reason: string;
}

export interface RequestForm {
  version: string;
  binding: string;
  title: string;
  method: string;
  url: string;
  headers: Record<string, string>;
  body: JsonValue | null;
  curl: string;
  python: string;
  reason?: string;
}

export interface TaskRequest {
  forms: RequestForm[];
}

export interface LogEventDetails {
  event: LogEvent;
  forms: EventForm[];
  request: TaskRequest | null;
}

export interface Webhook {
  id: string;
  url: string;
  version: string;
  has_token: boolean;
  authentication: string | null;
  delivered: number;
  last: number;
  state: "up_to_date" | "waiting" | "failing" | "paused" | "given_up";
  dead_letters: number;
  paused_since: string | null;
  failures: number;
  last_error: string | null;
  last_attempt_at: string | null;
  next_attempt_at: string | null;
}

export type TreeNodeKind =
  | "task"
  | "step"
  | "stream"
  | "model"
  | "tool"
  | "delegate"
  | "remote"
  | "sleep"
  | "question"
  | "approval"
  | "value";

export interface TreeNode {
  id: string;
  parent: string | null;
  kind: TreeNodeKind;
  name: string;
  task: string | null;
  agent: string | null;
  state: string;
  started_at: string | null;
  ended_at: string | null;
  detail: string;
  error: string;
  input_tokens: number;
  output_tokens: number;
  cost: number | string | null;
  currency: string;
  seq: number | null;
  approval: string | null;
}

export interface Tree {
  root: string;
  now: string;
  is_live: boolean;
  nodes: TreeNode[];
}

// --- the wire and checks ---------------------------------------------------------------------------------------------

export interface WireLine {
  number: number;
  exchange: number;
  at: string;
  direction: string;
  kind: string;
  operation: string;
  agent: string;
  version: string;
  binding: string;
  caller: string;
  what: string;
  headers: Record<string, string>;
  body: JsonValue | null;
  size: number;
  failed: boolean;
  milliseconds: number | null;
  /** Whether the body is left out because it is too long. */
  is_cut?: boolean;
}

export interface WireFilter {
  agent?: string;
  direction?: string;
  operation?: string;
  text?: string;
  failed_only?: boolean;
}

export interface CheckProgress {
  endpoint: string;
  case: string;
  done: number;
}

/** The report of `parley check --json`; the Check page narrows it. */
export type CheckReport = Record<string, JsonValue>;

// --- channels of the stream ------------------------------------------------------------------------------------------

/** What to open, by kind: the members that POST /stream/PAGE/open takes, without `channel` and the cursor. */
export type ChannelRequest =
  | { kind: "a2a"; url: string; request: JsonRpcRequest }
  | ({ kind: "task_list" } & Omit<TaskFilter, "cursor">)
  | { kind: "task_log"; task: string; agent: string }
  | { kind: "tree"; task: string; agent: string }
  | ({ kind: "wire" } & WireFilter)
  | { kind: "check"; check: string }
  | { kind: "approvals" };

export type ChannelKind = ChannelRequest["kind"];

/** The data of the frames of each kind of channel. */
export interface ChannelData {
  a2a: { id: number | null; response: JsonRpcResponse };
  task_list: { tasks: TaskRow[]; removed: string[] };
  task_log: { events: LogEvent[]; task: TaskRow };
  tree: Tree;
  wire: { lines: WireLine[]; missed: number; processes?: number };
  check: { progress?: CheckProgress; report?: CheckReport };
  approvals: { waiting: number };
}
