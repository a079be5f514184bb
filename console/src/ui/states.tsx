// What a page shows when it has nothing yet, nothing at all, or an error; and the state of a task or an agent as a badge.
// Waiting is always said in words. Colour is never the only sign: a badge has its word and a shape.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../api/http.ts";
import type { AgentState, RowState } from "../api/types.ts";
import type { TaskState } from "../a2a/types.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";
import type { Loaded } from "./load.ts";

export interface EmptyStateProps {
  title: string;
  /** What to do next. */
  children?: ComponentChildren;
  icon?: string;
  actions?: ComponentChildren;
}

export function EmptyState({ title, children, icon, actions }: EmptyStateProps) {
  return (
    <div class="empty">
      {icon && <span class="empty-icon"><Icon name={icon} size={24} /></span>}
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
      {actions && <div class="empty-actions">{actions}</div>}
    </div>
  );
}

/** Words for something that takes a while: nothing in the first moment, then the text: "Loading tasks…". */
export function Progress({ text, small }: { text: string; small?: boolean }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={small ? "progress progress-small" : "progress"} role="status">
      {isShown && <><span class="spinner" aria-hidden="true" /><span>{text}</span></>}
    </div>
  );
}

/** An error in place, with a button to try again. */
export function Problem({ error, retry, title }: { error: unknown; retry?: () => void; title?: string }) {
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <div class="problem-text">
        {title && <strong>{title}</strong>}
        <span>{messageOf(error)}</span>
      </div>
      {retry && <Button small onClick={retry}>Try again</Button>}
    </div>
  );
}

export interface LoadStateProps {
  of: Pick<Loaded<unknown>, "value" | "error" | "reload">;
  /** What is being done while there is nothing to show: "Reading versions…". */
  text: string;
  title?: string;
}

/** What `useLoad` has instead of a value: its error with a button to try again, or that it is loading. */
export function LoadState({ of, text, title }: LoadStateProps) {
  if (of.error) return <Problem error={of.error} retry={of.reload} {...(title && { title })} />;
  return of.value === undefined ? <Progress text={text} /> : null;
}

type Tone = "neutral" | "active" | "waiting" | "good" | "bad";

const STATES: Record<string, [tone: Tone, word: string]> = {
  submitted: ["neutral", "Submitted"],
  working: ["active", "Working"],
  "input-required": ["waiting", "Needs input"],
  "auth-required": ["waiting", "Needs login"],
  completed: ["good", "Completed"],
  failed: ["bad", "Failed"],
  canceled: ["neutral", "Canceled"],
  rejected: ["bad", "Rejected"],
  unknown: ["neutral", "Unknown"],
  ready: ["good", "Ready"],
  stopped: ["neutral", "Stopped"],
  needs_login: ["waiting", "Needs login"],
  unreachable: ["bad", "Unreachable"],
};

/** A state of A2A 1.0 as the console's API writes it: TASK_STATE_INPUT_REQUIRED → input-required. */
export function rowState(state: TaskState): RowState {
  if (state === "TASK_STATE_UNSPECIFIED") return "unknown";
  return state.replace("TASK_STATE_", "").replaceAll("_", "-").toLowerCase() as RowState;
}

function look(state: string): [tone: Tone, word: string] {
  const name = state.startsWith("TASK_STATE_") ? rowState(state as TaskState) : state;
  return STATES[name] ?? ["neutral", name];
}

/** The word for a state: "Needs input". */
export function stateWord(state: string): string {
  return look(state)[1];
}

/** The state of a task or an agent. */
export function StateBadge({ state }: { state: RowState | TaskState | AgentState }) {
  const [tone, word] = look(state);
  return <Badge tone={tone}>{word}</Badge>;
}

/** Any short word with a tone. */
export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}><span class="badge-dot" aria-hidden="true" />{children}</span>;
}

/** A short word without meaning for good or bad: a version, a binding, a tag. */
export function Tag({ children, title }: { children: ComponentChildren; title?: string }) {
  return <span class="tag" title={title}>{children}</span>;
}
