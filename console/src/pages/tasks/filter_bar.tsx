// The filters above the task list. Every change goes into the URL, text after a moment without typing.

import { useEffect, useRef, useState } from "preact/hooks";
import { agents } from "../../api/agents.ts";
import { has } from "../../api/session.ts";
import { shortLine } from "../../text/safe.ts";
import { Button, Select, stateWord, TextInput } from "../../ui/index.ts";
import { isFiltered, NO_FILTER, RANGES, STATES, type TaskFilter } from "./filters.ts";

const TYPING_MS = 300;

export interface FilterBarProps {
  filter: TaskFilter;
  /** The id of the agent whose tasks are shown; empty for all. */
  agent: string;
  onChange: (filter: TaskFilter) => void;
  isOperator: boolean;
  /** A remote agent is asked with A2A, which filters less. */
  isRemote: boolean;
}

export function FilterBar({ filter, agent, onChange, isOperator, isRemote }: FilterBarProps) {
  const change = (members: Partial<TaskFilter>) => onChange({ ...filter, ...members });
  const toggle = (state: (typeof STATES)[number]) =>
    change({ states: filter.states.includes(state) ? filter.states.filter((each) => each !== state) : [...filter.states, state] });
  const hasMore = filter.context !== "" || filter.since !== "" || filter.until !== "" || filter.tenant !== "";
  return (
    <search class="task-filters" aria-label="Tasks">
      <div class="task-filters-row">
        {!isRemote && <div class="grow"><LateInput label="Search in tasks" hideLabel isSearch placeholder="Search messages, artifacts and ids" value={filter.text} onChange={(text) => change({ text })} /></div>}
        <Select
          label="Agent" hideLabel value={agent} onChange={(id) => change({ agent: id })}
          options={[...(has("tasks") ? [{ value: "", title: "All agents" }] : []), ...agentOptions(agent)]}
        />
        <Select
          label="Time" hideLabel value={filter.range} onChange={(range) => change({ range, since: "", until: "" })}
          options={[{ value: "", title: filter.since || filter.until ? "Chosen times" : "Any time" }, ...RANGES.map((each) => ({ value: each.value, title: each.label }))]}
        />
        {isFiltered(filter) && <Button kind="quiet" onClick={() => onChange(NO_FILTER)}>Clear</Button>}
      </div>
      <div class="task-filters-row">
        <div class="task-states" role="group" aria-label="States">
          {STATES.map((state) => (
            <button key={state} type="button" class="kind-chip" aria-pressed={filter.states.includes(state)} onClick={() => toggle(state)}>
              {stateWord(state)}
            </button>
          ))}
        </div>
        <details class="task-filters-more" open={hasMore}>
          <summary>More filters</summary>
          <div class="task-filters-row">
            <LateInput label="Context" isCode value={filter.context} onChange={(context) => change({ context })} />
            <TextInput label="Since" type="datetime-local" value={localOf(filter.since)} onInput={(text) => change({ since: utcOf(text), range: "" })} />
            {!isRemote && <TextInput label="Until" type="datetime-local" value={localOf(filter.until)} onInput={(text) => change({ until: utcOf(text), range: "" })} />}
            {isOperator && <LateInput label="Tenant" value={filter.tenant} onChange={(tenant) => change({ tenant })} />}
          </div>
        </details>
      </div>
    </search>
  );
}

function agentOptions(chosen: string): { value: string; title: string }[] {
  const options = agents.value.map((agent) => ({
    value: agent.id,
    title: `${shortLine(agent.name, 40)}${agent.kind === "own" ? "" : " (elsewhere)"}`,
  }));
  return chosen === "" || options.some((option) => option.value === chosen) ? options : [...options, { value: chosen, title: shortLine(chosen, 40) }];
}

interface LateInputProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  hideLabel?: boolean;
  isCode?: boolean;
  isSearch?: boolean;
  placeholder?: string;
}

/** A text field whose value counts when the user has stopped typing, or pressed Enter. */
function LateInput({ value, onChange, isSearch, ...rest }: LateInputProps) {
  const [typed, setTyped] = useState(value);
  const sent = useRef(value);
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    if (value !== sent.current) setTyped(value); // changed elsewhere: the back button, "Clear"
    sent.current = value;
  }, [value]);
  const send = () => {
    if (typed === sent.current) return;
    sent.current = typed;
    latest.current(typed);
  };
  useEffect(() => {
    const timer = setTimeout(send, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <TextInput
      {...rest} type={isSearch ? "search" : "text"} value={typed} onInput={setTyped}
      onKeyDown={(event) => {
        if (event.key === "Enter") send();
      }}
    />
  );
}

/** A moment in UTC as a datetime-local field shows it. */
function localOf(moment: string): string {
  if (!moment) return "";
  const date = new Date(moment);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function utcOf(local: string): string {
  const moment = local ? Date.parse(local) : NaN;
  return Number.isNaN(moment) ? "" : new Date(moment).toISOString();
}
