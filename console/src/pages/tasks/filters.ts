// The filters of the task list, as the URL has them, and as the API takes them.
//
// A range like `1h` means "within the last hour" whenever the link is opened; `since` and `until` are fixed moments.
// What the URL has and the page does not understand is dropped.

import type { RowState, TaskFilter as ApiFilter } from "../../api/types.ts";

export const STATES = [
  "submitted",
  "working",
  "input-required",
  "auth-required",
  "completed",
  "failed",
  "canceled",
  "rejected",
] as const;

export const RANGES: readonly { value: string; label: string; seconds: number }[] = [
  { value: "15m", label: "last 15 minutes", seconds: 900 },
  { value: "1h", label: "last hour", seconds: 3_600 },
  { value: "24h", label: "last 24 hours", seconds: 86_400 },
  { value: "7d", label: "last 7 days", seconds: 604_800 },
];

export interface TaskFilter {
  agent: string;
  states: RowState[];
  context: string;
  /** A range, or empty. */
  range: string;
  /** Moments in RFC 3339, or empty; only without a range. */
  since: string;
  until: string;
  text: string;
  /** For operators. */
  tenant: string;
}

export const NO_FILTER: TaskFilter = { agent: "", states: [], context: "", range: "", since: "", until: "", text: "", tenant: "" };

/** The filter that a query string describes. */
export function readFilter(query: URLSearchParams): TaskFilter {
  const range = RANGES.some((each) => each.value === query.get("range")) ? query.get("range")! : "";
  return {
    agent: query.get("agent") ?? "",
    states: STATES.filter((state) => query.getAll("state").includes(state)),
    context: query.get("context") ?? "",
    range,
    since: range === "" ? moment(query.get("since")) : "",
    until: range === "" ? moment(query.get("until")) : "",
    text: query.get("text") ?? "",
    tenant: query.get("tenant") ?? "",
  };
}

/** The query string of a filter; empty members are left out. */
export function writeFilter(filter: TaskFilter): URLSearchParams {
  const query = new URLSearchParams();
  if (filter.agent) query.set("agent", filter.agent);
  for (const state of filter.states) query.append("state", state);
  for (const name of ["context", "range", "since", "until", "text", "tenant"] as const) {
    if (filter[name]) query.set(name, filter[name]);
  }
  return query;
}

/** The filter as the API and the channel `task_list` take it, at a moment. */
export function apiFilter(filter: TaskFilter, now: number): ApiFilter {
  const members: ApiFilter = {};
  const range = RANGES.find((each) => each.value === filter.range);
  const since = range === undefined ? filter.since : new Date(now - range.seconds * 1000).toISOString();
  if (filter.agent) members.agent = filter.agent;
  if (filter.states.length > 0) members.state = filter.states;
  if (filter.context) members.context = filter.context;
  if (since) members.since = since;
  if (filter.until) members.until = filter.until;
  if (filter.text) members.text = filter.text;
  if (filter.tenant) members.tenant = filter.tenant;
  return members;
}

export function isFiltered(filter: TaskFilter): boolean {
  return writeFilter(filter).size > 0;
}

function moment(text: string | null): string {
  return text !== null && !Number.isNaN(Date.parse(text)) ? text : "";
}
