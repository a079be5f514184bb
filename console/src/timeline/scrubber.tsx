// The slider through a task's events: arrow keys move by one, page keys by a tenth, and the number can be typed.
// Above it, marks show where the status changed and where the task paused.

import { useMemo, useState } from "preact/hooks";
import { durationText, shortLine } from "../text/safe.ts";
import { Button, IconButton } from "../ui/index.ts";
import { eventText, LONG_PAUSE_MS } from "./event_list.tsx";
import type { EventLog } from "./log.ts";

export interface ScrubberProps {
  log: EventLog;
  version: number;
  cursor: number | null;
  isLive: boolean;
  onMove: (seq: number | null) => void;
}

export function Scrubber({ log, version, cursor, isLive, onMove }: ScrubberProps) {
  const now = cursor ?? log.last;
  const move = (seq: number) => onMove(Math.min(log.last, Math.max(log.oldest, seq)));
  const marks = useMemo(() => marksOf(log), [log, version]);
  return (
    <div class="scrubber">
      <IconButton icon="left" label="Event before" small disabled={now <= log.oldest} onClick={() => move(now - 1)} />
      <div class="scrubber-track">
        <div class="scrubber-marks" aria-hidden="true">
          {marks.map((mark) => (
            <span key={`${mark.kind}${mark.at}`} class={`scrubber-mark scrubber-mark-${mark.kind}`} style={{ left: `${mark.at}%` }} title={mark.title} />
          ))}
        </div>
        <input
          type="range"
          aria-label="Task after event"
          min={log.oldest}
          max={Math.max(log.oldest, log.last)}
          step={1}
          value={now}
          aria-valuetext={eventText(log.get(now), now, log.last)}
          onInput={(event) => move(event.currentTarget.valueAsNumber)}
        />
      </div>
      <IconButton icon="right" label="Next event" small disabled={now >= log.last} onClick={() => move(now + 1)} />
      <JumpField now={now} last={log.last} onJump={move} />
      {isLive && (
        <Button small pressed={cursor === null} onClick={() => onMove(cursor === null ? log.last : null)}>Follow</Button>
      )}
    </div>
  );
}

function JumpField({ now, last, onJump }: { now: number; last: number; onJump: (seq: number) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const jump = () => {
    const seq = Number.parseInt(typed ?? "", 10);
    setTyped(null);
    if (Number.isFinite(seq)) onJump(seq);
  };
  return (
    <span class="scrubber-number">
      <input
        class="input"
        inputMode="numeric"
        size={6}
        aria-label="Go to event number"
        data-jump
        value={typed ?? String(now)}
        onFocus={(event) => event.currentTarget.select()}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onBlur={jump}
        onKeyDown={(event) => {
          if (event.key === "Enter") jump();
        }}
      />
      <span class="dim">of {last.toLocaleString("en-US")}</span>
    </span>
  );
}

interface Mark {
  kind: "status" | "failed" | "pause" | "message";
  at: number;
  title: string;
}

const MAX_MARKS = 150;

/** Marks for the status changes, messages and long pauses that are loaded; one of each kind per place. */
export function marksOf(log: EventLog): Mark[] {
  const marks = new Map<string, Mark>();
  const length = Math.max(1, log.last - log.oldest);
  const add = (kind: Mark["kind"], seq: number, title: string) => {
    const at = Math.round(((seq - log.oldest) / length) * 500) / 5;
    const key = `${kind}${at}`;
    if (marks.size < MAX_MARKS && !marks.has(key)) marks.set(key, { kind, at, title });
  };
  log.select((event) => {
    if ((event.pause_ms ?? 0) >= LONG_PAUSE_MS) add("pause", event.seq, `${durationText(event.pause_ms!)} pause before ${event.seq}`);
    if (event.kind === "status") add(/^(failed|rejected)/.test(event.summary) ? "failed" : "status", event.seq, `${event.seq}: ${shortLine(event.summary, 80)}`);
    if (event.kind === "message-added") add("message", event.seq, `${event.seq}: ${shortLine(event.summary, 80)}`);
    return false;
  });
  return [...marks.values()];
}
