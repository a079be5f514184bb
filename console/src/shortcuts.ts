// Keyboard shortcuts: a table of keys and what they do, which the help lists. Sequences such as `g t` are two keys.
// Keys that are typed into a field count only with Ctrl or Cmd. `Mod` is Cmd on a Mac and Ctrl elsewhere.

import { signal } from "./signals.ts";
import { useEffect } from "preact/hooks";

export interface Shortcut {
  /** `"Mod+k"`, `"g t"`, `"?"`, `"j"`, `"Escape"`, `"Shift+Enter"`. */
  keys: string;
  /** What it does, for the help: "Open the palette". */
  title: string;
  /** Where it works, for the help: "Everywhere", "Tasks". */
  group: string;
  run: (event: KeyboardEvent) => void;
}

/** All shortcuts that work now; the newest wins. */
export const shortcuts = signal<readonly Shortcut[]>([]);

const KEPT = "parley-keys";

/** Whether keys without Ctrl or Cmd count. People who talk to their computer switch them off (WCAG 2.1.4). */
export const hasPlainKeys = signal(readPlainKeys());

function readPlainKeys(): boolean {
  try {
    return localStorage.getItem(KEPT) !== "off";
  } catch {
    return true; // storage is switched off
  }
}

/** Switch keys without Ctrl on or off, in this browser. */
export function setPlainKeys(isOn: boolean): void {
  hasPlainKeys.value = isOn;
  try {
    localStorage.setItem(KEPT, isOn ? "on" : "off");
  } catch {
    // it lasts until the page is closed
  }
}

export const isMac = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** Add shortcuts; returns the function that removes them. */
export function addShortcuts(added: readonly Shortcut[]): () => void {
  shortcuts.value = [...shortcuts.peek(), ...added];
  return () => {
    shortcuts.value = shortcuts.peek().filter((each) => !added.includes(each));
  };
}

/** Shortcuts of a component, while it is shown. `inputs` are what `run` depends on. */
export function useShortcuts(make: () => readonly Shortcut[], inputs: readonly unknown[] = []): void {
  useEffect(() => addShortcuts(make()), inputs as unknown[]);
}

/** A key press as shortcuts write it: "Mod+k". Shift is named only with keys that are not characters. */
export function nameOf(event: KeyboardEvent): string {
  const mod = isMac ? event.metaKey : event.ctrlKey;
  const words = [mod ? "Mod" : "", event.altKey ? "Alt" : "", event.shiftKey && event.key.length > 1 ? "Shift" : ""];
  const key = event.key === " " ? "Space" : mod ? event.key.toLowerCase() : event.key;
  return [...words.filter(Boolean), key].join("+");
}

/** Whether keys are text here. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit", "range"].includes(target.type);
}

const SEQUENCE_MS = 1200;

/** Handle keys from now on. */
export function startShortcuts(): void {
  let first = "";
  let at = 0;
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || ["Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
    const name = nameOf(event);
    if ((isTyping(event.target) || !hasPlainKeys.peek()) && !name.startsWith("Mod+")) return;
    if (document.querySelector("dialog[open]") && name !== "Mod+k") return;
    const sequence = first && Date.now() - at < SEQUENCE_MS ? `${first} ${name}` : "";
    const found = shortcuts.peek().findLast((each) => each.keys === sequence)
      ?? shortcuts.peek().findLast((each) => each.keys === name);
    first = "";
    if (found) {
      event.preventDefault();
      found.run(event);
    } else if (shortcuts.peek().some((each) => each.keys.startsWith(`${name} `))) {
      first = name;
      at = Date.now();
    }
  });
}
