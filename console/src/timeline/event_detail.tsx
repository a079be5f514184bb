// One event in full: what it is, its body, and how each dialect and binding writes it.

import { useEffect, useState } from "preact/hooks";
import { isAbort } from "../api/http.ts";
import type { LogEvent, LogEventDetails } from "../api/types.ts";
import { DataView } from "../content/data_view.tsx";
import { bytesText, durationText, safeText } from "../text/safe.ts";
import { Badge, Facts, Problem, Progress, Tabs, Time } from "../ui/index.ts";
import { kindLabel } from "./events.ts";
import { EventForms, RequestForms } from "./forms.tsx";
import type { TaskTimeline } from "./task_timeline.ts";

const REST_MS = 150;

type Part = "body" | "forms" | "request";

export function EventDetail({ timeline, seq }: { timeline: TaskTimeline; seq: number }) {
  const [part, setPart] = useState<Part>("body");
  const known = timeline.log.get(seq);
  const needsAll = part !== "body" || (known?.body === null);
  const { details, error, reload } = useDetails(timeline, seq, needsAll || !known);
  const event = details?.event ?? known;
  if (known === null) return <p class="dim">The store does not keep event {seq}.</p>;
  if (error !== null && !event) return <Problem error={error} retry={reload} />;
  if (!event) return <Progress text={`Loading event ${seq}…`} />;
  return (
    <div class="event-detail">
      <EventFacts event={event} />
      <Tabs
        label="Parts of the event" selected={part} onSelect={(id) => setPart(id as Part)}
        tabs={[{ id: "body", title: "As stored" }, { id: "forms", title: "On the wire" }, { id: "request", title: "Request" }]}
      >
        {error !== null && <Problem error={error} retry={reload} />}
        {part === "body" && (event.body !== null ? <DataView value={event.body} label={`Body of event ${seq}`} /> : error === null && <Progress text="Loading the body…" />)}
        {part === "forms" && (details ? <EventForms forms={details.forms} /> : error === null && <Progress text="Loading the forms…" />)}
        {part === "request" && (details ? <RequestForms request={details.request} /> : error === null && <Progress text="Loading the request…" />)}
      </Tabs>
    </div>
  );
}

function EventFacts({ event }: { event: LogEvent }) {
  return (
    <Facts
      facts={[
        ["Event", <>{event.seq} <Badge tone="neutral">{kindLabel(event.kind)}</Badge></>],
        ["Summary", event.summary ? <bdi class="wrap">{safeText(event.summary.slice(0, 1_000))}</bdi> : null],
        ["Stored", <Time at={event.at} as="full" />],
        ["Pause before it", event.pause_ms === null ? null : durationText(event.pause_ms)],
        ["Size", bytesText(event.size)],
        ["Seen by callers", event.is_streamed ? "yes" : "no, it is kept for the agent"],
      ]}
    />
  );
}

/** The event in full, when the cursor has rested on it for a moment. */
function useDetails(timeline: TaskTimeline, seq: number, isNeeded: boolean) {
  const [found, setFound] = useState<{ seq: number; details: LogEventDetails | null; error: unknown } | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!isNeeded || (found?.seq === seq && found.details)) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      timeline.readEvent(seq, abort.signal).then(
        (details) => abort.signal.aborted || setFound({ seq, details, error: null }),
        (error: unknown) => isAbort(error) || setFound({ seq, details: null, error }),
      );
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [timeline, seq, isNeeded, round]);
  const current = found?.seq === seq ? found : null;
  return { details: current?.details ?? null, error: current?.error ?? null, reload: () => setRound(round + 1) };
}
