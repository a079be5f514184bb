// Above the list of lines: filters, pause, clear, the view, and how many lines there are and are missing.

import { useEffect, useState } from "preact/hooks";
import { plural } from "../../text/safe.ts";
import { Button, Checkbox, Select, TextInput } from "../../ui/index.ts";
import { isFiltering, NO_FILTER, valuesOf, type WireFilter, type WireLog } from "./wire_log.ts";

export type WireView = "lines" | "exchanges";

/** How long one may pause while typing before the server is told. */
const TYPING_MS = 350;

export interface WireToolbarProps {
  log: WireLog;
  /** How many lines match. */
  shown: number;
  /** How many processes the server has; the lines are those of one. */
  processes: number;
  filter: WireFilter;
  view: WireView;
  onFilter: (filter: WireFilter) => void;
  onView: (view: WireView) => void;
  onToggle: () => void;
  onClear: () => void;
}

export function WireToolbar({ log, shown, processes, filter, view, onFilter, onView, onToggle, onClear }: WireToolbarProps) {
  const choose = (member: "agent" | "direction" | "operation", label: string, any: string) => (
    <Select
      label={label} value={filter[member]} onChange={(value) => onFilter({ ...filter, [member]: value })}
      options={[{ value: "", title: any }, ...choices(log, member, filter[member]).map((value) => ({ value, title: value }))]}
    />
  );
  return (
    <div class="wire-tools">
      <div class="wire-filters" role="search" aria-label="Filter lines">
        <SearchInput value={filter.text} onInput={(text) => onFilter({ ...filter, text })} />
        {choose("agent", "Agent", "All agents")}
        {choose("direction", "Direction", "Both directions")}
        {choose("operation", "Operation", "All operations")}
        <Checkbox label="Failed only" checked={filter.failed_only} onChange={(failed_only) => onFilter({ ...filter, failed_only })} />
      </div>
      <div class="wire-bar">
        <Counts log={log} shown={shown} processes={processes} filter={filter} />
        <div class="wire-buttons">
          {isFiltering(filter) && <Button kind="quiet" small onClick={() => onFilter(NO_FILTER)}>Remove filters</Button>}
          <div role="group" aria-label="View" class="wire-switch">
            <button type="button" aria-pressed={view === "lines"} onClick={() => onView("lines")}>Lines</button>
            <button type="button" aria-pressed={view === "exchanges"} onClick={() => onView("exchanges")}>Side by side</button>
          </div>
          <Button small icon={log.isPaused ? "play" : "pause"} onClick={onToggle} title="p">
            {log.isPaused ? "Go on" : "Pause"}
          </Button>
          <Button small icon="trash" onClick={onClear} title="x">Clear</Button>
        </div>
      </div>
    </div>
  );
}

/** What a filter can be set to: what has occurred, and what it is set to now. */
function choices(log: WireLog, member: "agent" | "direction" | "operation", now: string): string[] {
  const found = valuesOf(log.lines, member);
  return now && !found.includes(now) ? [now, ...found] : found;
}

function SearchInput({ value, onInput }: { value: string; onInput: (value: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onInput(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return <TextInput label="Text" type="search" value={text} onInput={setText} placeholder="In headers and bodies" />;
}

function Counts({ log, shown, processes, filter }: Pick<WireToolbarProps, "log" | "shown" | "processes" | "filter">) {
  const all = log.lines.length;
  return (
    <p class="wire-counts">
      <span>{isFiltering(filter) ? `${plural(shown, "line")} of ${plural(all, "line")}` : plural(all, "line")}</span>
      {processes > 1 && <span>One of {processes} processes: requests to the others are not here</span>}
      {log.isPaused && <span class="wire-paused">Paused: {plural(log.waiting.length, "new line waits", "new lines wait")}</span>}
      {log.missed > 0 && (
        <span class="wire-missed">Missed {plural(log.missed, "line")}: the page was too slow. A filter helps.</span>
      )}
      {log.dropped > 0 && <span>{plural(log.dropped, "older line was", "older lines were")} dropped here</span>}
    </p>
  );
}
