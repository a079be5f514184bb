// The traceback of an agent that raised, for the people who run the server. Others, and readers of old failures, see where it is.

import { api, path } from "../api/http.ts";
import { CopyButton, useLoad } from "../ui/index.ts";
import { safeText } from "../text/safe.ts";

export interface TracebackProps {
  agent: string;
  task: string;
  /** What the task says: that of an agent that raised ends with a reference to the server's log. */
  reason: string;
}

export function Traceback({ agent, task, reason }: TracebackProps) {
  const { value } = useLoad(
    (signal) => api.get<{ traceback: string | null }>(path("tasks", task, "failure"), { query: { agent }, signal }),
    [agent, task],
  );
  if (!value) return null;
  const text = value.traceback;
  if (!text) return /Reference: \S+$/.test(reason) ? <span class="dim">The log of the server has the traceback under this reference.</span> : null;
  const last = text.trimEnd().split("\n").at(-1) ?? "";
  return (
    <details class="traceback">
      <summary>{safeText(last)}</summary>
      <CopyButton label="Copy the traceback" text={() => text} />
      <pre tabIndex={0}>{safeText(text)}</pre>
    </details>
  );
}
