// Fields of forms: a visible label, a hint, an error that is tied to the field.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

export interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
  /** The label is for screen readers only; the place must be clear without it. */
  hideLabel?: boolean;
  isRequired?: boolean;
  /** Gets what the control must have: `id`, `aria-describedby`, `aria-invalid`, `required`. */
  children: (attributes: ControlAttributes) => ComponentChildren;
}

export interface ControlAttributes {
  id: string;
  required?: boolean;
  "aria-describedby"?: string;
  "aria-invalid"?: true;
}

export function Field({ label, hint, error, hideLabel, isRequired, children }: FieldProps) {
  const id = useId();
  const attributes: ControlAttributes = { id };
  if (isRequired) attributes.required = true;
  if (hint || error) attributes["aria-describedby"] = `${id}-more`;
  if (error) attributes["aria-invalid"] = true;
  return (
    <div class="field">
      <label class={hideLabel ? "visually-hidden" : "field-label"} for={id}>{label}</label>
      {children(attributes)}
      {(hint || error) && <div id={`${id}-more`} class={error ? "field-error" : "field-hint"}>{error || hint}</div>}
    </div>
  );
}

export interface TextInputProps extends Omit<FieldProps, "children"> {
  value: string;
  onInput: (value: string) => void;
  type?: "text" | "password" | "url" | "search" | "email" | "number" | "datetime-local";
  placeholder?: string;
  autofocus?: boolean;
  /** Several lines. */
  rows?: number;
  /** For ids, URLs and JSON. */
  isCode?: boolean;
  onKeyDown?: (event: KeyboardEvent) => void;
}

export function TextInput(props: TextInputProps) {
  const { value, onInput, type = "text", placeholder, autofocus, rows, isCode, onKeyDown, ...field } = props;
  const shared = {
    class: isCode ? "input code" : "input",
    value, placeholder, autofocus, onKeyDown,
    autocomplete: "off" as const,
    spellcheck: !isCode && rows !== undefined,
    onInput: (event: { currentTarget: HTMLInputElement | HTMLTextAreaElement }) => onInput(event.currentTarget.value),
  };
  return (
    <Field {...field}>
      {(attributes) =>
        rows ? <textarea {...shared} {...attributes} rows={rows} /> : <input {...shared} {...attributes} type={type as "text"} />
      }
    </Field>
  );
}

export interface SelectProps<Value extends string> extends Omit<FieldProps, "children"> {
  value: Value;
  onChange: (value: Value) => void;
  options: readonly { value: Value; title: string }[];
}

export function Select<Value extends string>({ value, onChange, options, ...field }: SelectProps<Value>) {
  return (
    <Field {...field}>
      {(attributes) => (
        <select class="input" value={value} onChange={(event) => onChange(event.currentTarget.value as Value)} {...attributes}>
          {options.map((option) => <option key={option.value} value={option.value}>{option.title}</option>)}
        </select>
      )}
    </Field>
  );
}

export interface CheckboxProps {
  label: ComponentChildren;
  checked: boolean;
  onChange: (checked: boolean) => void;
}

export function Checkbox({ label, checked, onChange }: CheckboxProps) {
  return (
    <label class="checkbox">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}
