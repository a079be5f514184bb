// The traceback of an agent that raised, for the people who run the server. Others, and old failures, show nothing.

import { api, path } from "../api/http.ts";
import { CopyButton, useLoad } from "../ui/index.ts";
import { safeText } from "../text/safe.ts";

export function Traceback({ agent, task }: { agent: string; task: string }) {
  const { value } = useLoad(
    (signal) => api.get<{ traceback: string | null }>(path("tasks", task, "failure"), { query: { agent }, signal }),
    [agent, task],
  );
  const text = value?.traceback;
  if (!text) return null;
  const last = text.trimEnd().split("\n").at(-1) ?? "";
  return (
    <details class="traceback">
      <summary>{safeText(last)}</summary>
      <CopyButton label="Copy the traceback" text={() => text} />
      <pre tabIndex={0}>{safeText(text)}</pre>
    </details>
  );
}
