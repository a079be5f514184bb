// The wire: requests, replies, events and errors of this server as they pass, and of both sides of agents elsewhere.
// Lines are held by `wire_log`, also while another page is shown; the server records only while this page is open.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { forgetWithCaller } from "../../api/session.ts";
import { openChannel } from "../../api/stream.ts";
import { useCommands } from "../../commands.ts";
import { query, setQuery } from "../../router.ts";
import { useShortcuts } from "../../shortcuts.ts";
import { announce, Page, Problem, Split } from "../../ui/index.ts";
import "../../styles/wire.css";
import { WireDetail } from "./detail.tsx";
import { WireList } from "./list.tsx";
import { WireToolbar, type WireView } from "./toolbar.tsx";
import { isFiltering, matches, NO_FILTER, WireLog, type WireFilter } from "./wire_log.ts";

/** How often new lines are shown: a thousand lines a second are not a thousand renderings. */
const SHOW_MS = 120;

const log = new WireLog();
forgetWithCaller(() => log.clear());

export default function WirePage() {
  const filter = filterOf(query.value);
  const view: WireView = query.value.get("view") === "exchanges" ? "exchanges" : "lines";
  const [round, setRound] = useState(0);
  const [selected, select] = useState<number | null>(null);
  const show = () => setRound((before) => before + 1);
  const { error, isRecording, processes } = useWire(filter, show);
  const search = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => (isFiltering(filter) ? log.lines.filter((line) => matches(line, filter)) : [...log.lines]), [
    round,
    JSON.stringify(filter),
  ]);
  const line = selected === null ? null : (log.lines.find((each) => each.key === selected) ?? null);

  const toggle = () => {
    if (log.isPaused) log.resume();
    else log.pause();
    announce(log.isPaused ? "Paused. New lines are kept." : "Showing lines as they come.");
    show();
  };
  const clear = () => {
    log.clear();
    select(null);
    announce("Cleared.");
    show();
  };
  useActions(toggle, clear, () => search.current?.querySelector("input")?.focus(), () => select(null));

  return (
    <Page title="Wire" fill>
      {error && <Problem error={error} title="The wire cannot be shown" />}
      <div ref={search}>
        <WireToolbar
          log={log} shown={lines.length} processes={processes} filter={filter} view={view} onToggle={toggle} onClear={clear}
          onFilter={(next) => setQuery(searchOf(next))} onView={(next) => setQuery({ view: next === "exchanges" ? next : null })}
        />
      </div>
      <Split
        name="wire" label="Width of the list of lines" initial={line ? 0.5 : 0.62}
        first={<WireList lines={lines} view={view} filter={filter} selected={selected} onSelect={select} isPaused={log.isPaused} isRecording={isRecording || error !== null} />}
        second={<WireDetail line={line} lines={log.lines} onSelect={select} />}
      />
    </Page>
  );
}

/** Follow the wire with a filter: whether the server has begun to record, in how many processes it runs, and the error if it failed for good. */
function useWire(filter: WireFilter, show: () => void): { error: unknown; isRecording: boolean; processes: number } {
  const [error, setError] = useState<unknown>(null);
  const [isRecording, setRecording] = useState(false);
  const [processes, setProcesses] = useState(1);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    setError(null);
    setRecording(false);
    const channel = openChannel(
      { kind: "wire", ...sentFilter(filter) },
      {
        onData: ({ lines, missed, processes: all }) => {
          setRecording(true); // the first frame says only that
          if (all) setProcesses(all);
          log.add(lines, missed);
          timer ??= setTimeout(() => {
            timer = undefined;
            show();
          }, SHOW_MS);
        },
        onError: setError,
      },
    );
    return () => {
      clearTimeout(timer);
      channel.close();
    };
  }, [JSON.stringify(filter)]);
  return { error, isRecording, processes };
}

function useActions(toggle: () => void, clear: () => void, search: () => void, leave: () => void): void {
  const group = "Wire";
  useShortcuts(() => [
    { keys: "p", title: "Pause or go on", group, run: toggle },
    { keys: "x", title: "Clear the list", group, run: clear },
    { keys: "/", title: "Search in lines", group, run: search },
    { keys: "Escape", title: "Close the line", group, run: leave },
  ]);
  useCommands(() => [
    { title: log.isPaused ? "Go on showing lines" : "Pause the wire", group, run: toggle },
    { title: "Clear the wire", group, run: clear },
  ], [log.isPaused]);
}

// --- filters in the address ------------------------------------------------------------------------------------------

function filterOf(search: URLSearchParams): WireFilter {
  const get = (name: string) => search.get(name) ?? "";
  return {
    agent: get("agent"),
    direction: get("direction"),
    operation: get("operation"),
    text: get("text"),
    failed_only: search.has("failed"),
  };
}

function searchOf(filter: WireFilter): Record<string, string | null> {
  const { failed_only, ...texts } = filter;
  return { ...texts, failed: failed_only ? "1" : null };
}

/** The members of a filter that are set. */
function sentFilter(filter: WireFilter): Partial<WireFilter> {
  return Object.fromEntries(
    Object.entries(filter).filter(([name, value]) => value !== NO_FILTER[name as keyof WireFilter]),
  ) as Partial<WireFilter>;
}

