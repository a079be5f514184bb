// A2A 1.0 in JSON (ProtoJSON of package lf.a2a.v1) and the JSON-RPC envelope around it.
// Spec: 1.0 sections 4 and 9. What an agent sends is foreign: readers must not trust that members are there,
// so lists and texts that a peer may leave out are optional here.

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

// --- messages and tasks ----------------------------------------------------------------------------------------------

export type TaskState =
  | "TASK_STATE_UNSPECIFIED"
  | "TASK_STATE_SUBMITTED"
  | "TASK_STATE_WORKING"
  | "TASK_STATE_COMPLETED"
  | "TASK_STATE_FAILED"
  | "TASK_STATE_CANCELED"
  | "TASK_STATE_INPUT_REQUIRED"
  | "TASK_STATE_REJECTED"
  | "TASK_STATE_AUTH_REQUIRED";

export type Role = "ROLE_USER" | "ROLE_AGENT";

/** Exactly one of text, raw (base64), url and data is set; `data: null` is a value. */
export interface Part {
  text?: string;
  raw?: string;
  url?: string;
  data?: JsonValue;
  metadata?: JsonObject;
  filename?: string;
  mediaType?: string;
}

export interface Message {
  messageId: string;
  role: Role;
  parts: Part[];
  contextId?: string;
  taskId?: string;
  metadata?: JsonObject;
  extensions?: string[];
  referenceTaskIds?: string[];
}

export interface TaskStatus {
  state: TaskState;
  message?: Message;
  timestamp?: string;
}

export interface Artifact {
  artifactId: string;
  parts: Part[];
  name?: string;
  description?: string;
  metadata?: JsonObject;
  extensions?: string[];
}

export interface Task {
  id: string;
  contextId?: string;
  status: TaskStatus;
  artifacts?: Artifact[];
  history?: Message[];
  metadata?: JsonObject;
}

export interface StatusUpdate {
  taskId: string;
  contextId?: string;
  status: TaskStatus;
  metadata?: JsonObject;
}

export interface ArtifactUpdate {
  taskId: string;
  contextId?: string;
  artifact: Artifact;
  append?: boolean;
  lastChunk?: boolean;
  metadata?: JsonObject;
}

/** One event of a stream: exactly one member is set. */
export interface StreamResponse {
  task?: Task;
  message?: Message;
  statusUpdate?: StatusUpdate;
  artifactUpdate?: ArtifactUpdate;
}

export interface SendResponse {
  task?: Task;
  message?: Message;
}

// --- requests --------------------------------------------------------------------------------------------------------

export interface SendConfiguration {
  acceptedOutputModes?: string[];
  historyLength?: number;
  returnImmediately?: boolean;
}

export interface SendRequest {
  message: Message;
  configuration?: SendConfiguration;
  metadata?: JsonObject;
  tenant?: string;
}

export interface ListTasksRequest {
  contextId?: string;
  status?: TaskState;
  pageSize?: number;
  pageToken?: string;
  historyLength?: number;
  statusTimestampAfter?: string;
  includeArtifacts?: boolean;
}

export interface ListTasksResponse {
  tasks: Task[];
  nextPageToken: string;
  pageSize: number;
  totalSize: number;
}

export interface JsonRpcRequest {
  jsonrpc: "2.0";
  id: string | number;
  method: string;
  params: JsonObject;
}

export interface JsonRpcError {
  code: number;
  message: string;
  data?: JsonValue;
}

export interface JsonRpcResponse {
  jsonrpc: "2.0";
  id: string | number | null;
  result?: JsonValue;
  error?: JsonRpcError;
}

// --- the card --------------------------------------------------------------------------------------------------------

export interface AgentSkill {
  id: string;
  name: string;
  description: string;
  tags?: string[];
  examples?: string[];
  inputModes?: string[];
  outputModes?: string[];
}

export interface AgentExtension {
  uri: string;
  description?: string;
  required?: boolean;
  params?: JsonObject;
}

export interface AgentCard {
  name: string;
  description: string;
  version: string;
  supportedInterfaces?: { url: string; protocolBinding: string; protocolVersion: string; tenant?: string }[];
  provider?: { organization: string; url: string };
  documentationUrl?: string;
  iconUrl?: string;
  capabilities?: {
    streaming?: boolean;
    pushNotifications?: boolean;
    extendedAgentCard?: boolean;
    extensions?: AgentExtension[];
  };
  securitySchemes?: Record<string, JsonObject>;
  securityRequirements?: JsonObject[];
  defaultInputModes?: string[];
  defaultOutputModes?: string[];
  skills?: AgentSkill[];
  signatures?: JsonObject[];
}

// --- states ----------------------------------------------------------------------------------------------------------

const TERMINAL = new Set<string>([
  "TASK_STATE_COMPLETED",
  "TASK_STATE_FAILED",
  "TASK_STATE_CANCELED",
  "TASK_STATE_REJECTED",
]);

/** Whether a task in this state has ended. */
export function isTerminal(state: TaskState): boolean {
  return TERMINAL.has(state);
}

/** Whether a task in this state waits for its caller. */
export function isInterrupted(state: TaskState): boolean {
  return state === "TASK_STATE_INPUT_REQUIRED" || state === "TASK_STATE_AUTH_REQUIRED";
}

/** Whether the part has data, which may be null. */
export function hasData(part: Part): boolean {
  return Object.hasOwn(part, "data");
}
