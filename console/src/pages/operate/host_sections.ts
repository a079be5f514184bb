// The sections about the whole host, for operators: tenants, replicas, queues and the audit of all tenants.

import type { Action, Column, Field, Section } from "./section.ts";

const QUOTAS: readonly [string, string][] = [
  ["requests_per_minute", "Requests a minute"],
  ["concurrent_requests", "Requests at the same time"],
  ["tokens_per_day", "Tokens of models a day"],
  ["storage_bytes", "Bytes of files and memories"],
  ["schedules", "Schedules"],
  ["schedule_interval_seconds", "Seconds between two ticks of a schedule, at least"],
];

const SETTINGS: readonly [string, string][] = [
  ["file_parts", "Take files and data over A2A"],
  ["push_notifications", "Take webhooks"],
  ["input_required", "Let agents ask questions"],
];

const NAME: Field = { name: "name", label: "Name", from: "name", isRequired: true };

const TENANT_FIELDS: readonly Field[] = [
  NAME,
  ...QUOTAS.map(([name, label]): Field => {
    const member = `quotas.${name}`;
    return { name, label, kind: "number", member, from: member, isNullable: true, help: "Empty: the default of the host" };
  }),
  ...SETTINGS.map(([name, label]): Field => ({ name, label, kind: "check", member: `settings.${name}`, from: `settings.${name}` })),
];

export const OVERLAP: Field = { name: "overlap_seconds", label: "Seconds for which the old token stays valid", kind: "number", initial: 0 };

export const REASON: Field = { name: "reason", label: "Reason", isRequired: true, help: "Callers are told." };

const TENANT_ACTIONS: readonly Action[] = [
  { label: "Change", method: "PATCH", path: "/{id}", fields: TENANT_FIELDS, done: "{} was changed." },
  {
    label: "Rotate token",
    title: "Give {} a new token?",
    path: "/{id}/rotate-token",
    fields: [OVERLAP],
    warning: "With 0 seconds, the old token is refused at once, and the work of the tenant is stopped.",
    isDanger: true,
    hasToken: true,
    done: "{} has a new token.",
  },
  {
    label: "Stop work",
    title: "Stop all agents of {}?",
    path: "/{id}/stop",
    fields: [REASON],
    warning: "Their work ends within a second, and new messages are refused with the reason. The tenant can still read and manage. Only an operator can resume it.",
    isDanger: true,
    done: "All agents of {} are stopped.",
  },
  { label: "Resume work", path: "/{id}/resume", done: "The operator's stop of {} has ended." },
  {
    label: "Disable",
    method: "PATCH",
    path: "/{id}",
    body: { disabled: true },
    warning: "All its tokens are refused and its work is canceled at once. What it keeps stays, and it can be enabled again; canceled work does not come back.",
    typed: "name",
    isDanger: true,
    when: (row) => !row.disabled,
    done: "{} is disabled.",
  },
  { label: "Enable", method: "PATCH", path: "/{id}", body: { disabled: false }, when: (row) => row.disabled, done: "{} is enabled." },
];

const TENANTS: Section = {
  id: "tenants",
  title: "Tenants",
  noun: "tenant",
  about: "Tenants share nothing but the host. Each has a token, quotas and settings.",
  group: "host",
  needs: "operator",
  path: "/v1/admin/tenants",
  rows: "tenants",
  key: "id",
  columns: [
    ["name", "Name"],
    ["id", "Id", "code"],
    ["disabled", "Disabled", "yes"],
    ["created_at", "Created", "time"],
    ["last_used_at", "Last used", "time"],
  ],
  details: { members: ["quotas", "settings"] },
  create: [
    { label: "Create a tenant", path: "", fields: [NAME], hasToken: true, done: "{} was created with the starter agents." },
    {
      label: "Import a tenant",
      path: "/import",
      fields: [{ name: "file", label: "The file of an export", kind: "file", isRequired: true }, { name: "name", label: "Name", help: "Empty: the name in the file" }],
      hasToken: true,
      done: "{} was imported: {records} records, {tasks} tasks. To set again: {set_again}",
    },
  ],
  actions: TENANT_ACTIONS,
  empty: ["There are no tenants", "Create one, and give its token to the people who call its agents."],
};

const REPLICAS: Section = {
  id: "replicas",
  title: "Replicas",
  noun: "replica",
  about: "The processes that share the store. When the lease of one has expired, the others take its work over.",
  group: "host",
  needs: "operator",
  path: "/console/api/cluster",
  rows: "replicas",
  key: "worker",
  columns: [
    ["name", "Name"],
    ["state", "State", "state"],
    ["lease_seconds", "Lease", "lease", "not shared"],
    ["runs", "At work", "number"],
    ["waiting", "Waiting", "number"],
    ["version", "Version"],
    ["started_at", "Started", "time"],
    ["hint_problem", "Problem"],
    ["url", "URL", "code"],
  ],
  actions: [
    {
      label: "Drain",
      path: "/drain",
      body: { replica: "{worker}" },
      warning: "It takes nothing new, ends its runs or hands them on, and exits. Something else must start it again.",
      typed: "name",
      isDanger: true,
      when: (row) => row.state === "alive",
      done: "{} was asked to drain. It notices within two seconds.",
    },
  ],
  summary: "{held} tasks at work, {waiting} waiting, {sleeping} sleeping; webhooks of {undelivered} tasks are behind",
  empty: ["No process has a lease"],
  refresh: 2,
};

const QUEUES: Section = {
  id: "queues",
  title: "Queues",
  noun: "tenant",
  about: "How many requests of each tenant are at work and wait, on all replicas.",
  group: "host",
  needs: "operator",
  path: "/v1/admin/queue",
  rows: "tenants",
  key: "tenant_id",
  columns: [
    ["tenant_id", "Tenant", "code"],
    ["running", "At work", "number"],
    ["waiting", "Waiting", "number"],
  ],
  summary: "{running} at work, {waiting} waiting",
  empty: ["Nothing is at work, and nothing waits", "Requests appear here while agents work on them."],
  refresh: 3,
};

const AUDIT_COLUMNS: readonly Column[] = [
  ["ts", "When", "time"],
  ["actor", "Who", "code"],
  ["action", "What", "code"],
  ["target_kind", "Of what"],
  ["target_id", "Which", "code"],
];

const HOST_AUDIT: Section = {
  id: "host-audit",
  title: "Audit of the host",
  noun: "entry",
  about: "Who changed what, and when, for all tenants. Entries are never changed or deleted.",
  group: "host",
  needs: "operator",
  path: "/v1/admin/audit",
  rows: "entries",
  key: "id",
  columns: AUDIT_COLUMNS,
  paging: ["@id", "before_id"],
  details: { members: ["before", "after"] },
  empty: ["Nothing was changed yet"],
};

export const TENANT_AUDIT: Section = {
  ...HOST_AUDIT,
  id: "audit",
  title: "Audit",
  about: "Who changed what of this tenant, and when. Entries are never changed or deleted.",
  group: "tenant",
  needs: "audit",
  path: "/v1/audit",
  paging: ["next_before_id", "before_id"],
};

export const HOST_SECTIONS: readonly Section[] = [TENANTS, REPLICAS, QUEUES, HOST_AUDIT];
