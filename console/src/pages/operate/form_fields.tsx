// The fields of an action's form, made of data: texts, numbers, choices, scopes, lists, JSON and files.

import { Checkbox, Field as FieldFrame, Select, TextInput } from "../../ui/index.ts";
import type { Field, Row, Scope } from "./section.ts";

const SCOPES: readonly [Scope, string][] = [
  ["call", "send messages to agents"],
  ["read", "read agents, tasks and usage"],
  ["manage", "change agents, schedules, budgets and tokens"],
  ["approve", "decide what waits for approval"],
  ["audit", "read the audit"],
];

export interface FormFieldsProps {
  fields: readonly Field[];
  values: Row;
  /** What is wrong, by the name of the field. */
  problems: Record<string, string>;
  onChange: (name: string, value: unknown) => void;
}

export function FormFields({ fields, values, problems, onChange }: FormFieldsProps) {
  return (
    <>
      {fields.map((field) => (
        <FormField key={field.name} field={field} value={values[field.name]} problem={problems[field.name]} onChange={(value) => onChange(field.name, value)} />
      ))}
    </>
  );
}

interface FormFieldProps {
  field: Field;
  value: unknown;
  problem: string | undefined;
  onChange: (value: unknown) => void;
}

function FormField({ field, value, problem, onChange }: FormFieldProps) {
  const shared = {
    label: field.label,
    error: problem,
    ...(field.help !== undefined && { hint: field.help }),
    ...(field.isRequired && { isRequired: true }),
  };
  switch (field.kind) {
    case "check":
      return <Checkbox label={field.label} checked={Boolean(value)} onChange={onChange} />;
    case "choice": {
      const options = [...new Set([...(field.choices ?? []), String(value ?? "")])].map((choice) => ({ value: choice, title: choice || "(none)" }));
      return <Select {...shared} value={String(value ?? "")} onChange={onChange} options={options} />;
    }
    case "scopes":
      return <ScopeChoice field={field} chosen={Array.isArray(value) ? (value as string[]) : []} problem={problem} onChange={onChange} />;
    case "file":
      return (
        <FieldFrame {...shared}>
          {(attributes) => (
            <input type="file" class="input" {...attributes} onChange={(event) => onChange(event.currentTarget.files?.[0] ?? "")} />
          )}
        </FieldFrame>
      );
    default: {
      const text = String(value ?? "");
      const least = field.kind === "long" ? 3 : field.kind === "json" || field.kind === "list" ? 2 : 0;
      return (
        <TextInput
          {...shared} value={text} onInput={onChange} isCode={field.kind === "json"}
          {...(least > 0 && { rows: Math.min(12, Math.max(least, text.split("\n").length)) })}
        />
      );
    }
  }
}

interface ScopeChoiceProps {
  field: Field;
  chosen: readonly string[];
  problem: string | undefined;
  onChange: (chosen: string[]) => void;
}

function ScopeChoice({ field, chosen, problem, onChange }: ScopeChoiceProps) {
  return (
    <fieldset class="choices">
      <legend>{field.label}</legend>
      {SCOPES.map(([scope, meaning]) => (
        <Checkbox
          key={scope} label={<>{scope} <span class="dim">{meaning}</span></>} checked={chosen.includes(scope)}
          onChange={(isChosen) => onChange(isChosen ? [...chosen, scope] : chosen.filter((each) => each !== scope))}
        />
      ))}
      {(problem ?? field.help) && <span class={problem ? "field-error" : "field-hint"}>{problem ?? field.help}</span>}
    </fieldset>
  );
}
