// The palette (Ctrl-K): pages, agents, tasks by id, conversations and actions, found by some letters, run with Enter.
// Pages add commands and searches in commands.ts. A combobox as ARIA describes it: the focus stays in the field.

import { signal } from "./signals.ts";
import { useEffect, useMemo, useState } from "preact/hooks";
import { agents, loadAgents } from "./api/agents.ts";
import { api } from "./api/http.ts";
import { has } from "./api/session.ts";
import type { TaskPage } from "./api/types.ts";
import { addCommands, addSearch, commands, searches, type Command } from "./commands.ts";
import { PAGES } from "./pages/registry.ts";
import { links, navigate } from "./router.ts";
import { shortLine } from "./text/safe.ts";
import { nextTheme } from "./theme.ts";
import { nextIndex, stateWord, useModal } from "./ui/index.ts";

export const isPaletteOpen = signal(false);

const MOST = 40;

/** How well a command fits: 0 does not, more is better. All words must be found; beginnings of words count more. */
export function score(command: Command, text: string): number {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const title = command.title.toLowerCase();
  const all = `${title} ${command.group} ${command.detail ?? ""} ${command.words ?? ""}`.toLowerCase();
  let sum = 1;
  for (const word of words) {
    if (!all.includes(word)) return 0;
    sum += title.startsWith(word) ? 4 : title.includes(` ${word}`) ? 3 : title.includes(word) ? 2 : 1;
  }
  return sum;
}

/** The commands that fit, best first; groups stay together, in the order of their best. */
export function ranked(all: readonly Command[], text: string): Command[] {
  const fitting = all
    .map((command) => ({ command, points: score(command, text) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, MOST);
  const groups = Map.groupBy(fitting, ({ command }) => command.group);
  return [...groups.values()].flat().map(({ command }) => command);
}

/** Add what is always there; returns the function that removes it. */
export function startPalette(): () => void {
  const pages = Object.values(PAGES).filter((page) => page.entry && (!page.feature || has(page.feature)));
  const stops = [
    addCommands([
      ...pages.map(({ title, entry }) => ({ title, group: "Pages", href: entry!.href, words: "go open page" })),
      ...(has("tasks") ? [{ title: "Compare two tasks", group: "Pages", href: links.compare() }] : []),
      ...(has("remote") ? [{ title: "Add an agent by URL", group: "Actions", href: `${links.agents()}?add=1` }] : []),
      { title: "Switch theme", group: "Actions", words: "dark light colour", run: nextTheme },
    ]),
  ];
  if (has("tasks")) stops.push(addSearch(findTasks));
  return () => stops.forEach((stop) => stop());
}

async function findTasks(text: string, signal: AbortSignal): Promise<Command[]> {
  if (text.length < 3) return [];
  const { tasks } = await api.get<TaskPage>("/tasks", { query: { text, limit: 8 }, signal });
  return tasks.map((task) => ({
    title: shortLine(task.title || task.id, 80), group: "Tasks", words: text,
    detail: `${task.agent_name || task.agent} · ${stateWord(task.state)} · ${task.id.slice(0, 8)}`,
    href: links.task(task.agent, task.id),
  }));
}

function agentCommands(): Command[] {
  return agents.value.flatMap((agent) => {
    const detail = shortLine(agent.description, 60);
    const name = shortLine(agent.name, 60);
    return [
      { title: name, group: "Agents", detail, words: agent.id, href: links.agent(agent.id) },
      { title: `Chat with ${name}`, group: "Chat", words: agent.id, href: links.chat(agent.id) },
    ];
  });
}

/** What the searches find, a moment after the last letter. */
function useSearches(text: string): { found: Command[]; isSearching: boolean } {
  const [state, setState] = useState<{ found: Command[]; isSearching: boolean }>({ found: [], isSearching: false });
  useEffect(() => {
    const query = text.trim();
    if (!query) {
      setState({ found: [], isSearching: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((before) => ({ ...before, isSearching: true }));
    const timer = setTimeout(async () => {
      const results = await Promise.allSettled(searches.peek().map((search) => search(query, abort.signal)));
      if (abort.signal.aborted) return;
      setState({ found: results.flatMap((each) => (each.status === "fulfilled" ? each.value : [])), isSearching: false });
    }, 150);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return state;
}

export function Palette() {
  const dialog = useModal();
  const [text, setText] = useState("");
  const [selected, setSelected] = useState(0);
  const { found, isSearching } = useSearches(text);
  const shown = useMemo(
    () => ranked([...commands.value, ...agentCommands(), ...found], text),
    [commands.value, agents.value, found, text],
  );
  useEffect(() => void loadAgents(), []);
  useEffect(() => setSelected(0), [text]);
  const close = () => (isPaletteOpen.value = false);
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    if (command.href) navigate(command.href);
    command.run?.();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const isCharacter = event.key.length === 1 || event.key === "Home" || event.key === "End";
    const next = isCharacter ? null : nextIndex(event.key, selected, shown.length, 8);
    if (next !== null) {
      event.preventDefault();
      setSelected(Math.max(0, next));
      document.getElementById(`palette-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(shown[selected]);
    }
  };
  return (
    <dialog
      ref={dialog} class="dialog palette" aria-label="Search, go to, do"
      onCancel={(event) => { event.preventDefault(); close(); }}
      onMouseDown={(event) => event.target === dialog.current && close()}
    >
      <input
        class="palette-input" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list"
        aria-activedescendant={shown.length ? `palette-${selected}` : undefined} aria-label="Search, go to, do" spellcheck={false}
        placeholder="A page, an agent, a task's id or text, an action…" value={text} autofocus autocomplete="off"
        onInput={(event) => setText(event.currentTarget.value)} onKeyDown={onKeyDown}
      />
      <ul class="plain palette-list" role="listbox" id="palette-list" aria-label="Results">
        {shown.map((command, index) => (
          <li
            key={`${command.group} ${command.href ?? command.title}`} id={`palette-${index}`} role="option" aria-selected={index === selected}
            class="palette-row" onMouseMove={() => index !== selected && setSelected(index)} onClick={() => run(command)}
          >
            <span class="palette-group">{command.group !== shown[index - 1]?.group && command.group}</span>
            <span class="cut">{command.title}</span>
            {command.detail && <span class="cut dim small grow">{command.detail}</span>}
          </li>
        ))}
      </ul>
      <p class="palette-foot" role="status">
        {isSearching ? "Searching tasks…" : shown.length ? `${shown.length} found` : "Nothing found. Try fewer letters."}
      </p>
    </dialog>
  );
}
