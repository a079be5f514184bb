// The sections about one tenant that are tables: agents, schedules, queue, MCP servers, access, stops, audit.

import { links } from "../../router.ts";
import { OVERLAP, REASON, TENANT_AUDIT } from "./host_sections.ts";
import type { Action, Field, Row, Section } from "./section.ts";

const NAME: Field = { name: "name", label: "Name", from: "name", isRequired: true };
const ROLE: Field = { name: "role", label: "Role", help: "owner, developer, caller, viewer, approver, auditor, or a role of the tenant" };
const SCOPES: Field = { name: "scopes", label: "Scopes", kind: "scopes", help: "In place of a role" };
const DESCRIPTION: Field = { name: "description", label: "Description", from: "description" };

/** An action that deletes something for good. */
function deletion(label: string, path: string, warning: string, more: Partial<Action> = {}): Action {
  return { label, method: "DELETE", path, warning: `${warning} This cannot be undone.`, typed: "name", isDanger: true, done: "{} is gone.", ...more };
}

const AGENTS: Section = {
  id: "agents",
  title: "Agents",
  noun: "agent",
  about: "The agents of this tenant. Each change of a constitution is a version.",
  group: "tenant",
  needs: "read",
  path: "/v1/agents",
  rows: "agents",
  key: "id",
  link: (row) => links.operate("agents", String(row.id)),
  columns: [
    ["name", "Name"],
    ["id", "Id", "code"],
    ["role", "Role", "text", "an agent of Python"],
    ["model", "Model", "code", "the default"],
    ["version", "Version", "number"],
    ["pinned_version", "Pinned", "number"],
    ["updated_at", "Changed", "time"],
    ["stopped.reason", "Stopped because"],
  ],
  create: [
    {
      label: "Create an agent",
      path: "",
      fields: [
        { name: "id", label: "Id", isRequired: true, help: "Letters, digits, hyphens and underscores" },
        NAME,
        { name: "role", label: "Role", isRequired: true, help: "In a word or two: researcher, author" },
        { name: "goal", label: "Goal", kind: "long", isRequired: true, help: "What it does. The card and the routing use it." },
        { name: "note", label: "Note", help: "Why; the list of versions shows it" },
      ],
      done: "{} was created. Open it to say more.",
    },
  ],
  actions: [
    {
      label: "Stop",
      path: "/{id}/stop",
      fields: [REASON],
      warning: "Its work ends within a second, also what it has delegated, and new messages are refused with the reason. Tasks that wait for an answer stay as they are.",
      isDanger: true,
      when: (row) => !row.stopped,
      done: "{} is stopped.",
    },
    { label: "Resume", path: "/{id}/resume", when: (row) => row.stopped, done: "The stop of {} has ended." },
  ],
  empty: ["There are no agents", "Create one, and say in its goal what it does."],
};

const SCHEDULE_FIELDS: readonly Field[] = [
  NAME,
  { name: "agent_id", label: "Agent", from: "agent_id", initial: "index", isRequired: true },
  { name: "message", label: "Message", kind: "long", from: "message", isRequired: true },
  { name: "cron", label: "Cron expression", from: "cron", help: "0 9 * * *, or @daily. Give one of cron, interval and moment." },
  { name: "every", label: "Interval", from: "every", help: "15 minutes" },
  { name: "at", label: "Moment", from: "at", help: "2026-12-01T09:00:00+01:00" },
  { name: "time_zone", label: "Time zone", from: "time_zone", initial: "UTC" },
  { name: "missed", label: "Ticks that were missed", kind: "choice", from: "missed", choices: ["run_once", "run_all", "skip"] },
  { name: "overlap", label: "While the run before is at work", kind: "choice", from: "overlap", choices: ["skip", "allow"] },
];

const TO_CALL = ["manage", "call"] as const;

const SCHEDULES: Section = {
  id: "schedules",
  title: "Schedules",
  noun: "schedule",
  about: "Messages that go to agents by themselves.",
  group: "tenant",
  needs: "read",
  path: "/v1/schedules",
  rows: "schedules",
  key: "id",
  columns: [
    ["name", "Name"],
    ["status", "State", "state"],
    ["agent_id", "Agent", "code"],
    ["cron", "Cron", "code"],
    ["every", "Every"],
    ["runs", "Runs", "number"],
    ["next_ticks.0", "Next", "time"],
  ],
  paging: ["next_cursor", "cursor"],
  details: { path: "/{id}/runs", members: ["message", "pause_reason", "next_ticks", "runs"] },
  create: [{ label: "Create a schedule", path: "", fields: SCHEDULE_FIELDS, scopes: TO_CALL, done: "{} was created. Next: {next_ticks.0}" }],
  actions: [
    { label: "Run now", path: "/{id}/run", scopes: TO_CALL, done: "{} has begun the request {request_id}." },
    { label: "Pause", path: "/{id}/pause", when: (row) => row.status === "active", done: "{} is paused. What it has begun goes on." },
    { label: "Resume", path: "/{id}/resume", when: (row) => row.status === "paused", scopes: TO_CALL, done: "{} goes on. Next: {next_ticks.0}" },
    { label: "Change", method: "PATCH", path: "/{id}", fields: SCHEDULE_FIELDS, revision: "header", scopes: TO_CALL, done: "{} was changed." },
    deletion("Delete", "/{id}", "Its history is deleted. Its requests can still be read.", { revision: "header" }),
  ],
  empty: ["There are no schedules", "Create one to have a message sent every day, or every hour."],
};

const QUEUE: Section = {
  id: "queue",
  title: "Queue",
  noun: "request",
  about: "The requests of this tenant that are at work or wait, on all replicas.",
  group: "tenant",
  needs: "read",
  path: "/v1/queue",
  rows: "entries",
  key: "request_id",
  columns: [
    ["request_id", "Request", "code"],
    ["state", "State", "state"],
    ["agent_id", "Agent", "code"],
    ["position", "Position", "number"],
    ["priority", "Priority"],
    ["principal", "Caller", "code"],
    ["created_at", "Since", "time"],
    ["replica", "Replica", "code"],
  ],
  actions: [
    {
      label: "Change priority",
      title: "Change the priority of {}",
      method: "PATCH",
      path: "/{request_id}",
      fields: [{ name: "priority", label: "Priority", kind: "choice", choices: ["low", "normal", "high"], from: "priority" }],
      when: (row) => row.state === "waiting",
      done: "{} has the priority {priority}.",
    },
    {
      label: "Cancel",
      path: "/v1/requests/{request_id}/cancel",
      scopes: ["call"],
      warning: "What it has done so far stays. What its agent has delegated is canceled, too.",
      isDanger: true,
      done: "{} is canceled.",
    },
  ],
  summary: "{running} at work, {waiting} waiting",
  empty: ["Nothing is at work, and nothing waits", "Requests appear here while agents work on them."],
  refresh: 3,
};

const MCP_FIELDS: readonly Field[] = [
  { name: "url", label: "URL", from: "url", isRequired: true, help: "It speaks streamable HTTP." },
  DESCRIPTION,
  { name: "headers", label: "Headers", kind: "json", help: '{"Authorization": "Bearer …"}. They are never shown; null keeps a value.' },
  { name: "tools", label: "Tools", kind: "list", from: "allowed_tools", help: "One on a line; empty: all of them" },
  { name: "timeout_seconds", label: "Seconds that a call may take", kind: "number", from: "timeout_seconds" },
  { name: "identity", label: "Tell the server for whom it is called", kind: "check", from: "identity" },
];

const isOwnServer = (row: Row) => row.source === "tenant";

const MCP_SERVERS: Section = {
  id: "mcp",
  title: "MCP servers",
  noun: "server",
  about: "Servers whose tools the agents use: those of the operator, then the tenant's own.",
  group: "tenant",
  needs: "manage",
  path: "/v1/mcp/servers",
  rows: "servers",
  key: "name",
  columns: [
    ["name", "Name", "code"],
    ["status.state", "State", "state"],
    ["source", "Of"],
    ["transport", "Transport"],
    ["status.last_error", "Problem"],
    ["url", "URL", "code"],
  ],
  details: { path: "/{name}", members: ["description", "status", "tools", "rejected_tools"] },
  create: [{ label: "Add a server", method: "PUT", path: "/{name}", fields: [NAME, ...MCP_FIELDS], done: "{} was added." }],
  actions: [
    { label: "Change", method: "PUT", path: "/{name}", fields: MCP_FIELDS, revision: "body", when: isOwnServer, done: "{} was changed." },
    deletion("Remove", "/{name}", "Calls in progress fail.", { when: isOwnServer }),
  ],
  empty: ["Agents have no tools of MCP servers", "Add a server that speaks streamable HTTP."],
};

const TOKENS: Section = {
  id: "tokens",
  title: "Tokens",
  noun: "token",
  about: "Tokens beside the tenant's own, each with a role or scopes.",
  group: "tenant",
  needs: "manage",
  path: "/v1/access/tokens",
  rows: "tokens",
  key: "id",
  columns: [
    ["name", "Name"],
    ["role", "Role"],
    ["scopes", "Scopes", "list"],
    ["id", "Id", "code"],
    ["account", "Account"],
    ["created_by", "Created by", "code"],
    ["expires_at", "Expires", "time", "never"],
  ],
  create: [
    {
      label: "Create a token",
      path: "",
      fields: [
        { name: "name", label: "What it is for", isRequired: true },
        ROLE,
        SCOPES,
        { name: "account", label: "Service account", help: "Empty: none" },
        { name: "expires_in_seconds", label: "Seconds until it expires", kind: "number", help: "Empty: never" },
      ],
      hasToken: true,
      done: "{} was created.",
    },
  ],
  actions: [
    {
      label: "Rotate",
      path: "/{id}/rotate",
      fields: [OVERLAP],
      warning: "The new token allows the same. With 0 seconds, the old one is refused at once, and its streams end.",
      isDanger: true,
      hasToken: true,
      done: "{} was replaced.",
    },
    deletion("Revoke", "/{id}", "It is refused at once, and its streams end before the next event."),
  ],
  empty: ["There is only the tenant's own token", "It may do everything. Create one that may do less."],
};

const ACCOUNT_FIELDS: readonly Field[] = [
  { ...ROLE, from: "grant.role" },
  { ...SCOPES, from: "grant.scopes" },
  DESCRIPTION,
  { name: "disabled", label: "Disabled: its tokens are refused", kind: "check", from: "disabled" },
];

const ACCOUNTS: Section = {
  id: "accounts",
  title: "Service accounts",
  noun: "account",
  about: "Programs with a name and with tokens of their own.",
  group: "tenant",
  needs: "manage",
  path: "/v1/access/accounts",
  rows: "accounts",
  key: "name",
  columns: [
    ["name", "Name"],
    ["grant.role", "Role"],
    ["grant.scopes", "Scopes", "list"],
    ["disabled", "Disabled", "yes"],
    ["created_by", "Created by", "code"],
    ["description", "Description"],
  ],
  create: [{ label: "Create an account", method: "PUT", path: "/{name}", fields: [NAME, ...ACCOUNT_FIELDS], done: "{} was created. Create a token for it in Tokens." }],
  actions: [
    { label: "Change", method: "PUT", path: "/{name}", fields: ACCOUNT_FIELDS, done: "{} was changed." },
    deletion("Delete", "/{name}", "All its tokens are refused at once."),
  ],
  empty: ["There are no service accounts", "Create one for a program that has several tokens."],
};

const isOwnRole = (row: Row) => !row.is_built_in;
const ROLE_SCOPES: Field = { name: "scopes", label: "Scopes", kind: "scopes", from: "scopes", isRequired: true };

const ROLES: Section = {
  id: "roles",
  title: "Roles",
  noun: "role",
  about: "Named sets of scopes: those that every tenant has, then the tenant's own.",
  group: "tenant",
  needs: "read",
  path: "/v1/access/roles",
  rows: "roles",
  key: "name",
  columns: [
    ["name", "Name"],
    ["scopes", "Scopes", "list"],
    ["is_built_in", "Built in", "yes"],
  ],
  create: [{ label: "Define a role", method: "PUT", path: "/{name}", fields: [NAME, ROLE_SCOPES], done: "{} was defined." }],
  actions: [
    {
      label: "Change",
      method: "PUT",
      path: "/{name}",
      fields: [ROLE_SCOPES],
      warning: "The change is in effect at once for all tokens and accounts that have the role.",
      when: isOwnRole,
      done: "{} was changed.",
    },
    deletion("Delete", "/{name}", "What has it is allowed nothing any more.", { when: isOwnRole }),
  ],
  empty: ["There are no roles"],
};

const STOPS: Section = {
  id: "stops",
  title: "Kill switch",
  noun: "agent",
  about: "What is stopped: agents, and the tenant as a whole. Single agents are stopped in Agents.",
  group: "tenant",
  needs: "read",
  path: "/v1/stops",
  rows: "stops",
  key: "target",
  columns: [
    ["agent_id", "Agent", "code", "all agents"],
    ["target", "Stopped as"],
    ["reason", "Reason"],
    ["by", "By", "code"],
    ["at", "Since", "time"],
  ],
  create: [
    {
      label: "Stop all agents",
      path: "/v1/stop",
      fields: [REASON],
      warning: "All work of this tenant ends within a second, and new messages are refused with the reason, until it is resumed. Tasks that wait for an answer stay as they are.",
      isDanger: true,
      done: "All agents of this tenant are stopped.",
    },
  ],
  actions: [
    { label: "Resume", path: "/v1/agents/{agent_id}/resume", when: (row) => row.target === "agent", done: "The stop of {} has ended." },
    { label: "Resume all", path: "/v1/resume", when: (row) => row.target === "tenant", done: "The agents of this tenant work again, but for those that were stopped one by one." },
  ],
  empty: ["Nothing is stopped"],
  refresh: 5,
};

export const TENANT_SECTIONS: readonly Section[] = [AGENTS, SCHEDULES, QUEUE, MCP_SERVERS, TOKENS, ACCOUNTS, ROLES, STOPS, TENANT_AUDIT];
