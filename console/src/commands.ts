// What the palette (Ctrl-K) offers: commands with a title, added by the shell and by the pages that are open, and searches
// that find things by what was typed (agents, tasks by id, conversations).

import { signal } from "./signals.ts";
import { useEffect } from "preact/hooks";

export interface Command {
  /** "Cancel this task" */
  title: string;
  /** "Pages", "Agents", "This task", … Commands are shown by group. */
  group: string;
  /** Shown beside the title, small. */
  detail?: string;
  /** Other words by which it is found. */
  words?: string;
  /** One of both: where it leads, or what it does. */
  href?: string;
  run?: () => void;
}

/** Finds commands for a text, which is not empty. */
export type CommandSearch = (text: string, signal: AbortSignal) => Promise<Command[]>;

export const commands = signal<readonly Command[]>([]);
export const searches = signal<readonly CommandSearch[]>([]);

/** Add commands; returns the function that removes them. */
export function addCommands(added: readonly Command[]): () => void {
  commands.value = [...added, ...commands.peek()];
  return () => {
    commands.value = commands.peek().filter((each) => !added.includes(each));
  };
}

/** Add a search; returns the function that removes it. */
export function addSearch(search: CommandSearch): () => void {
  searches.value = [...searches.peek(), search];
  return () => {
    searches.value = searches.peek().filter((each) => each !== search);
  };
}

/** Commands of a component, while it is shown. `inputs` are what they depend on. */
export function useCommands(make: () => readonly Command[], inputs: readonly unknown[] = []): void {
  useEffect(() => addCommands(make()), inputs as unknown[]);
}
