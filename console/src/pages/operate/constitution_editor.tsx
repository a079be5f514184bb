// A constitution as a form and as JSON. Both edit the same object; what the host refuses is marked at its member.

import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Tabs, TextInput } from "../../ui/index.ts";
import { CONSTITUTION, FIELDS, lineOf, textsOf, withField } from "./constitution.ts";
import { changesBetween } from "./diff.ts";
import { DiffView } from "./diff_view.tsx";
import { FormFields } from "./form_fields.tsx";
import { fieldAt, type Row } from "./section.ts";

export interface Refusal {
  /** The JSON path of the member at fault; empty if none is. */
  path: string;
  reason: string;
}

export interface ConstitutionEditorProps {
  /** What it was before: changes are shown against it. */
  base: Row;
  value: Row;
  onChange: (value: Row) => void;
  refusal: Refusal | null;
  /** The label of the button, and what it does. */
  action: string;
  busy: string;
  /** Versions show the note; drafts have none. */
  hasNote?: boolean;
  isReadOnly?: boolean;
  onSave: (note: string) => void;
}

export function ConstitutionEditor(props: ConstitutionEditorProps) {
  const { base, value, onChange, refusal, action, busy, hasNote, isReadOnly, onSave } = props;
  const [tab, setTab] = useState("form");
  const [note, setNote] = useState("");
  const [faults, setFaults] = useState<Record<string, string>>({});
  const changes = changesBetween(base, value);
  const field = refusal ? fieldAt(FIELDS, refusal.path) : undefined;
  const problems = field && refusal ? { ...faults, [field.name]: refusal.reason } : faults;
  const isBroken = Object.keys(faults).length > 0;
  const setFault = (name: string, fault: string) =>
    setFaults(({ [name]: _, ...others }) => (fault ? { ...others, [name]: fault } : others));
  return (
    <form
      class="constitution"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && !isBroken) onSave(note);
      }}
    >
      <Tabs label="How the constitution is edited" tabs={[{ id: "form", title: "Form" }, { id: "json", title: "JSON" }]} selected={tab} onSelect={setTab}>
        {tab === "form" ? (
          <FormView value={value} onChange={onChange} problems={problems} onFault={setFault} isReadOnly={isReadOnly ?? false} />
        ) : (
          <JsonView value={value} onChange={onChange} refusal={refusal} onFault={(fault) => setFault("(JSON)", fault)} isReadOnly={isReadOnly ?? false} />
        )}
      </Tabs>
      {refusal && !field && <p class="field-error" role="alert">{[refusal.path, refusal.reason].filter(Boolean).join(": ")}</p>}
      {field && <p class="field-error" role="alert">{field.label}: {refusal!.reason}</p>}
      {!isReadOnly && (
        <div class="constitution-foot">
          <details class="operate-fold" open={changes.length > 0 && changes.length < 4}>
            <summary>{changes.length === 1 ? "1 member changed" : `${changes.length} members changed`}</summary>
            <DiffView changes={changes} />
          </details>
          {hasNote && <TextInput label="Note" value={note} onInput={setNote} hint="Why; the list of versions shows it." />}
          <Button type="submit" kind="primary" disabled={isBroken} busy={busy || false}>{action}</Button>
        </div>
      )}
    </form>
  );
}

// --- the form --------------------------------------------------------------------------------------------------------

interface FormViewProps {
  value: Row;
  onChange: (value: Row) => void;
  problems: Record<string, string>;
  onFault: (name: string, fault: string) => void;
  isReadOnly: boolean;
}

function FormView({ value, onChange, problems, onFault, isReadOnly }: FormViewProps) {
  // JSON that is not complete yet stays as it was typed.
  const [pending, setPending] = useState<Row>({});
  const set = (name: string, text: unknown) => {
    const field = FIELDS.find((each) => each.name === name)!;
    const { [name]: _, ...others } = pending;
    try {
      onChange(withField(value, field, String(text)));
      setPending(others);
      onFault(name, "");
    } catch {
      setPending({ ...others, [name]: text });
      onFault(name, "must be JSON");
    }
  };
  const texts = { ...textsOf(value), ...pending };
  return (
    <fieldset class="constitution-form" disabled={isReadOnly}>
      <legend class="visually-hidden">The constitution</legend>
      {CONSTITUTION.map((group) => (
        <fieldset key={group.title} class="constitution-group">
          <legend>{group.title}</legend>
          <FormFields fields={group.fields} values={texts} problems={problems} onChange={set} />
        </fieldset>
      ))}
    </fieldset>
  );
}

// --- JSON ------------------------------------------------------------------------------------------------------------

interface JsonViewProps {
  value: Row;
  onChange: (value: Row) => void;
  refusal: Refusal | null;
  onFault: (fault: string) => void;
  isReadOnly: boolean;
}

function JsonView({ value, onChange, refusal, onFault, isReadOnly }: JsonViewProps) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [fault, setFault] = useState("");
  const area = useRef<HTMLDivElement>(null);
  useEffect(() => () => onFault(""), []);
  const line = refusal?.path ? lineOf(text, refusal.path) : 0;
  useEffect(() => {
    if (line) selectLine(area.current?.querySelector("textarea") ?? null, line);
  }, [refusal]);
  const set = (next: string) => {
    setText(next);
    const found = parse(next);
    const problem = typeof found === "string" ? found : "";
    setFault(problem);
    onFault(problem);
    if (typeof found !== "string") onChange(found);
  };
  const said = fault || (refusal && line ? `Line ${line}, ${refusal.path}: ${refusal.reason}` : undefined);
  return (
    <div ref={area}>
      <TextInput label="Constitution as JSON" value={text} onInput={isReadOnly ? () => undefined : set} isCode rows={24} error={said} />
    </div>
  );
}

function parse(text: string): Row | string {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Row) : "It must be an object.";
  } catch (error) {
    return `It is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function selectLine(area: HTMLTextAreaElement | null, line: number): void {
  if (!area) return;
  const start = area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.setSelectionRange(start, area.value.indexOf("\n", start) < 0 ? area.value.length : area.value.indexOf("\n", start));
}
