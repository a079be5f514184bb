// Buttons, and links that look like buttons. A busy button stays where it is, cannot be pressed again, and says what it does.

import type { ComponentChildren } from "preact";
import { Icon } from "./icon.tsx";

export type ButtonKind = "default" | "primary" | "danger" | "quiet";

interface ButtonLook {
  kind?: ButtonKind;
  small?: boolean;
  icon?: string;
  children?: ComponentChildren;
}

export interface ButtonProps extends ButtonLook {
  onClick?: (event: MouseEvent) => void;
  type?: "button" | "submit";
  disabled?: boolean;
  /** What is being done, instead of the label: "Sending…". The button is disabled meanwhile. */
  busy?: string | false | undefined;
  title?: string;
  pressed?: boolean;
}

function classOf({ kind = "default", small }: ButtonLook): string {
  return `button button-${kind}${small ? " button-small" : ""}`;
}

export function Button(props: ButtonProps) {
  const { onClick, type = "button", disabled, busy, title, pressed, icon, children } = props;
  return (
    <button
      type={type}
      class={classOf(props)}
      // Not `disabled` while busy: the focus would be lost.
      disabled={disabled && !busy}
      aria-disabled={busy ? true : undefined}
      aria-pressed={pressed}
      title={title}
      onClick={busy ? (event) => event.preventDefault() : onClick}
    >
      {icon && <Icon name={icon} />}
      {busy ? <span role="status">{busy}</span> : children}
    </button>
  );
}

/** A link that looks like a button. */
export function ButtonLink(props: ButtonLook & { href: string; newTab?: boolean }) {
  return (
    <a class={classOf(props)} href={props.href} target={props.newTab ? "_blank" : undefined}>
      {props.icon && <Icon name={props.icon} />}
      {props.children}
    </a>
  );
}

export interface IconButtonProps {
  icon: string;
  /** What it does, for the tooltip and screen readers. */
  label: string;
  onClick?: (event: MouseEvent) => void;
  expanded?: boolean;
  disabled?: boolean;
  small?: boolean;
}

export function IconButton({ icon, label, onClick, expanded, disabled, small }: IconButtonProps) {
  return (
    <button
      type="button" class={`button button-quiet button-icon${small ? " button-small" : ""}`} disabled={disabled}
      onClick={onClick} aria-label={label} title={label} aria-expanded={expanded}
    >
      <Icon name={icon} />
    </button>
  );
}
