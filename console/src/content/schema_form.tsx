// A form of an agent, filled in and checked in place. Every field has a label, its description and its problem linked to
// it; a form that is not valid says how many fields are wrong and leads to the first. Long forms have a search.

import "../styles/content.css";
import { useSignal } from "../signals.ts";
import { useMemo, useRef } from "preact/hooks";
import type { JsonObject, JsonValue } from "../a2a/types.ts";
import { plural, safeText, shortLine } from "../text/safe.ts";
import { Button } from "../ui/index.ts";
import { memo } from "./memo.ts";
import { FORMAT_WORDS } from "./schema_check.ts";
import { keyOf, type Field } from "./schema_fields.ts";
import { FormState } from "./schema_form_state.ts";

/** Forms with more fields have a search. */
const SEARCH_FROM = 20;
const MAX_DESCRIPTION = 1_000;

let forms = 0;

export interface SchemaFormProps {
  schema: JsonObject;
  onSubmit: (answer: JsonObject) => void;
}

/** A form for the object that the schema describes. */
export function SchemaForm({ schema, onSubmit }: SchemaFormProps) {
  const id = useMemo(() => `form-${++forms}`, []);
  const state = useMemo(() => new FormState(schema), [schema]);
  const wanted = useSignal("");
  const wrong = useSignal<readonly Field[]>([]);
  const element = useRef<HTMLFormElement>(null);

  function submit(event: Event) {
    event.preventDefault();
    const answer = state.check();
    wrong.value = state.invalid();
    if (answer) return onSubmit(answer);
    wanted.value = "";
    const first = wrong.value[0];
    if (first) focusOn(element.current, fieldId(id, first));
  }

  return (
    <form class="schema-form" ref={element} onSubmit={submit} noValidate>
      {state.leaves.length > SEARCH_FROM && (
        <label class="schema-search">
          Find a field among {state.leaves.length}
          <input type="search" class="input" value={wanted.value} onInput={(event) => (wanted.value = event.currentTarget.value)} />
        </label>
      )}
      <div class="schema-fields">
        {state.fields.map((field) => <FieldOrGroup key={field.name} id={id} field={field} state={state} wanted={wanted.value} />)}
      </div>
      {/* The field that is left would be checked between pressing and releasing the button, which moves the button away. */}
      <div class="schema-end" onMouseDown={(event) => event.preventDefault()}>
        <Button type="submit" kind="primary">Send</Button>
        <p class="field-error" role="alert">
          {wrong.value.length > 0 && `${plural(wrong.value.length, "field is", "fields are")} not valid. `}
          {state.problem.value && safeText(state.problem.value).slice(0, MAX_DESCRIPTION)}
        </p>
      </div>
    </form>
  );
}

function focusOn(form: HTMLFormElement | null, id: string) {
  const element = form?.querySelector(`#${id}`);
  const target = element instanceof HTMLFieldSetElement ? element.querySelector("input") : element;
  if (target instanceof HTMLElement) target.focus();
}

function fieldId(form: string, field: Field): string {
  // Letters, digits and dashes of the path, with a sum of all its characters: names may hold anything.
  const key = keyOf(field);
  let sum = 0;
  for (let index = 0; index < key.length; index++) sum = (sum * 31 + key.charCodeAt(index)) >>> 0;
  return `${form}-${field.name.replace(/[^A-Za-z0-9-]/g, "").slice(0, 20)}-${sum.toString(36)}`;
}

interface FieldProps {
  id: string;
  field: Field;
  state: FormState;
  wanted: string;
}

function isWanted(field: Field, wanted: string): boolean {
  const text = wanted.trim().toLowerCase();
  if (!text || `${field.name} ${field.title}`.toLowerCase().includes(text)) return true;
  return field.fields.some((inside) => isWanted(inside, wanted));
}

const FieldOrGroup = memo(function FieldOrGroup({ id, field, state, wanted }: FieldProps) {
  const isHidden = !isWanted(field, wanted);
  if (field.kind !== "group") return <FieldView id={fieldId(id, field)} field={field} state={state} isHidden={isHidden} />;
  return (
    <fieldset class="schema-group" hidden={isHidden}>
      <legend>{shortLine(field.title)}{field.isRequired ? "" : " (optional)"}</legend>
      {field.description && <p class="field-hint">{shortLine(field.description, MAX_DESCRIPTION)}</p>}
      {field.fields.map((each) => <FieldOrGroup key={each.name} id={id} field={each} state={state} wanted={wanted} />)}
    </fieldset>
  );
});

interface ViewProps {
  id: string;
  field: Field;
  state: FormState;
  isHidden: boolean;
}

const FieldView = memo(function FieldView({ id, field, state, isHidden }: ViewProps) {
  const problem = state.problemOf(field).value;
  const hint = hintOf(field);
  const label = <>{shortLine(field.title)}{field.isRequired ? "" : <span class="optional"> (optional)</span>}</>;
  const isGroup = field.kind === "choices";
  const content = (
    <>
      {isGroup ? <legend>{label}</legend> : <label class="field-label" for={id}>{label}</label>}
      {hint && <p class="field-hint" id={`${id}-hint`}>{hint}</p>}
      {isGroup ? <Choices field={field} state={state} /> : <Input id={id} field={field} state={state} hasHint={hint !== ""} />}
      {problem && <p class="field-error" id={`${id}-problem`}>{safeText(problem)}</p>}
    </>
  );
  if (!isGroup) return <div class="schema-field" hidden={isHidden}>{content}</div>;
  return <fieldset class="schema-field" id={id} hidden={isHidden} aria-describedby={described(id, hint !== "", problem)}>{content}</fieldset>;
});

function described(id: string, hasHint: boolean, problem: string): string | undefined {
  return [hasHint ? `${id}-hint` : "", problem ? `${id}-problem` : ""].filter(Boolean).join(" ") || undefined;
}

function hintOf(field: Field): string {
  const words = [shortLine(field.description, MAX_DESCRIPTION)];
  if (field.kind === "lines") words.push("One per line.");
  if (field.kind === "json") words.push("As JSON.");
  const format = FORMAT_WORDS[field.format];
  if (format && field.kind === "text" && !INPUT_TYPES[field.format]) words.push(`Enter ${format}.`);
  const { minimum, maximum } = field.schema;
  if (typeof minimum === "number" && typeof maximum === "number") words.push(`From ${minimum} to ${maximum}.`);
  else if (typeof minimum === "number") words.push(`At least ${minimum}.`);
  else if (typeof maximum === "number") words.push(`At most ${maximum}.`);
  return words.filter(Boolean).join(" ");
}

/** Types of inputs whose values are what the format wants. */
const INPUT_TYPES: Record<string, "date" | "email" | "url" | "password"> = { date: "date", email: "email", uri: "url", password: "password" };

function Input({ id, field, state, hasHint }: { id: string; field: Field; state: FormState; hasHint: boolean }) {
  const entry = state.entry(field);
  const problem = state.problemOf(field).value;
  const common = {
    id,
    class: field.kind === "json" ? "input code" : "input",
    "aria-describedby": described(id, hasHint, problem),
    "aria-invalid": problem ? true : undefined,
    "aria-required": field.isRequired,
    onBlur: () => {
      if (problem || entry.peek().length > 0) state.checkField(field);
    },
  };
  const value = entry.value as string;
  const onInput = (event: { currentTarget: { value: string } }) => {
    entry.value = event.currentTarget.value;
  };
  switch (field.kind) {
    case "choice":
    case "boolean":
      return (
        <select {...common} value={value} onChange={onInput}>
          <option value="">{field.isRequired ? "Choose…" : "–"}</option>
          {optionsOf(field).map(([key, text]) => <option key={key} value={key}>{text}</option>)}
        </select>
      );
    case "long-text":
    case "lines":
    case "json":
      return <textarea {...common} rows={field.kind === "json" ? 4 : 3} value={value} onInput={onInput} spellcheck={field.kind !== "json"} />;
    case "integer":
    case "number":
      return <input {...common} type="text" inputMode={field.kind === "integer" ? "numeric" : "decimal"} autocomplete="off" value={value} onInput={onInput} />;
    default:
      return <input {...common} type={(INPUT_TYPES[field.format] ?? "text") as "text"} autocomplete="off" value={value} onInput={onInput} />;
  }
}

function optionsOf(field: Field): [string, string][] {
  if (field.kind === "boolean") return [["true", "Yes"], ["false", "No"]];
  return field.choices.map((choice, index) => [String(index), choiceText(choice)]);
}

function choiceText(choice: JsonValue): string {
  return shortLine(typeof choice === "string" ? choice || "“”" : JSON.stringify(choice), 200);
}

function Choices({ field, state }: { field: Field; state: FormState }) {
  const entry = state.entry(field);
  const taken = entry.value as number[];
  return (
    <div class="choices">
      {field.choices.map((choice, index) => (
        <label key={index}>
          <input
            type="checkbox" checked={taken.includes(index)}
            onChange={(event) => {
              const others = taken.filter((each) => each !== index);
              entry.value = event.currentTarget.checked ? [...others, index].sort((a, b) => a - b) : others;
              if (state.problemOf(field).peek()) state.checkField(field);
            }}
          />
          {choiceText(choice)}
        </label>
      ))}
    </div>
  );
}
