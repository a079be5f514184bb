// A few values of which one is chosen, as buttons in a row.

import type { ComponentChildren } from "preact";

export interface ChoiceProps<Value extends string> {
  /** What is chosen, for screen readers. */
  label: string;
  value: Value;
  options: readonly { value: Value; title: ComponentChildren; hint?: string; isDim?: boolean }[];
  onChange: (value: Value) => void;
}

export function Choice<Value extends string>({ label, value, options, onChange }: ChoiceProps<Value>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value} type="button" class={option.isDim ? "choice-dim" : undefined} title={option.hint}
          aria-pressed={option.value === value} onClick={() => onChange(option.value)}
        >
          {option.title}
        </button>
      ))}
    </div>
  );
}
