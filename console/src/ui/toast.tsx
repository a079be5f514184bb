// Short messages at the edge of the page: what was done, or what failed. Errors stay until they are closed.

import { signal } from "../signals.ts";
import { messageOf } from "../api/http.ts";
import { announce } from "./announce.tsx";
import { IconButton } from "./button.tsx";
import { Icon } from "./icon.tsx";

interface Toast {
  id: number;
  text: string;
  isError: boolean;
}

const shown = signal<readonly Toast[]>([]);
let last = 0;
const SECONDS = 6;

/** Show a message: what was done, or what failed. */
export function toast(text: string, isError = false): void {
  const id = ++last;
  shown.value = [...shown.peek().slice(-3), { id, text, isError }];
  announce(text, isError);
  if (!isError) setTimeout(remove, SECONDS * 1000, id);
}

function remove(id: number): void {
  shown.value = shown.peek().filter((each) => each.id !== id);
}

/** Show what failed: `catch (error) { toastError(error) }`. */
export function toastError(error: unknown, before = ""): void {
  toast(before ? `${before}: ${messageOf(error)}` : messageOf(error), true);
}

/** The messages; the shell shows them once. */
export function ToastOutlet() {
  return (
    <div class="toasts">
      {shown.value.map(({ id, text, isError }) => (
        <div key={id} class={isError ? "toast toast-error" : "toast"}>
          <Icon name={isError ? "warning" : "check"} />
          <span class="toast-text">{text}</span>
          <IconButton icon="close" label="Dismiss" small onClick={() => remove(id)} />
        </div>
      ))}
    </div>
  );
}
