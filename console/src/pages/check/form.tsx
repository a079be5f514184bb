// What to check: an agent, the message that it gets, and the options that `parley check` has.

import { useState } from "preact/hooks";
import type { Agent } from "../../api/types.ts";
import { shortLine } from "../../text/safe.ts";
import { Button, Checkbox, Select, TextInput } from "../../ui/index.ts";
import { NoAgents } from "../no_agents.tsx";

/** The body of POST /checks. Members that are empty are left out. */
export interface CheckRequest {
  agent: string;
  message: string;
  only: string[];
  skills?: string[];
  bindings?: string[];
  versions?: string[];
  timeout?: number;
  webhook?: string;
}

const BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"];
const VERSIONS = ["0.1", "0.2", "0.3", "1.0"];

export interface CheckFormProps {
  agents: readonly Agent[];
  /** The id of the agent that is chosen at first. */
  agent: string;
  busy: string;
  onStart: (request: CheckRequest) => void;
}

interface Values {
  message: string;
  only: string;
  skills: string;
  bindings: string[];
  versions: string[];
  timeout: string;
  webhook: string;
}

const INITIAL: Values = { message: "Hello", only: "", skills: "", bindings: [], versions: [], timeout: "", webhook: "" };

export function CheckForm({ agents, agent, busy, onStart }: CheckFormProps) {
  const [chosen, choose] = useState(agent);
  const [values, setValues] = useState(INITIAL);
  const set = (changes: Partial<Values>) => setValues((before) => ({ ...before, ...changes }));
  if (!agents.length) return <NoAgents />;
  const id = agents.some((each) => each.id === chosen) ? chosen : agents[0]!.id;
  const timeout = Number(values.timeout);
  const timeoutError = values.timeout && !(timeout >= 0.1) ? "must be a number of seconds from 0.1 on" : undefined;
  return (
    <form
      class="check-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && !timeoutError) onStart(requestOf(id, values));
      }}
    >
      <div class="check-main">
        <Select
          label="Agent" value={id} onChange={choose}
          options={agents.map((each) => ({ value: each.id, title: shortLine(`${each.name} (${each.id})`, 80) }))}
        />
        <TextInput label="Message" value={values.message} onInput={(message) => set({ message })} />
        <Button type="submit" kind="primary" busy={busy || false}>Run the check</Button>
      </div>
      <p class="field-hint">The agent gets about twenty messages per binding. Tasks that have not ended are canceled.</p>
      <details class="check-options">
        <summary>Options</summary>
        <div class="check-grid">
          <TextInput label="Rules" value={values.only} onInput={(only) => set({ only })} isCode hint="G1.16, G1.17; empty: all of them" />
          <TextInput label="Skills" value={values.skills} onInput={(skills) => set({ skills })} isCode hint="Ids with commas; empty: the agent chooses" />
          <TextInput
            label="Seconds to wait for an answer" value={values.timeout} onInput={(timeout) => set({ timeout })}
            hint="30 if it is empty" error={timeoutError}
          />
          <TextInput label="Webhook" type="url" value={values.webhook} onInput={(webhook) => set({ webhook })} isCode hint="It is registered and deleted, never called" />
          <Choices legend="Bindings" all={BINDINGS} chosen={values.bindings} onChange={(bindings) => set({ bindings })} />
          <Choices legend="Versions" all={VERSIONS} chosen={values.versions} onChange={(versions) => set({ versions })} />
        </div>
      </details>
    </form>
  );
}

interface ChoicesProps {
  legend: string;
  all: readonly string[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
}

function Choices({ legend, all, chosen, onChange }: ChoicesProps) {
  const toggle = (value: string, isChosen: boolean) =>
    onChange(isChosen ? [...chosen, value] : chosen.filter((each) => each !== value));
  return (
    <fieldset class="choices">
      <legend>{legend}</legend>
      {all.map((value) => (
        <Checkbox key={value} label={value} checked={chosen.includes(value)} onChange={(isChosen) => toggle(value, isChosen)} />
      ))}
      <span class="field-hint">None: all that the card declares</span>
    </fieldset>
  );
}

const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** The request for the values of the form. */
export function requestOf(agent: string, values: Values): CheckRequest {
  const request: CheckRequest = { agent, message: values.message || "Hello", only: words(values.only) };
  if (words(values.skills).length) request.skills = words(values.skills);
  if (values.bindings.length) request.bindings = values.bindings;
  if (values.versions.length) request.versions = values.versions;
  if (values.timeout) request.timeout = Number(values.timeout);
  if (values.webhook.trim()) request.webhook = values.webhook.trim();
  return request;
}
