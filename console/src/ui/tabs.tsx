// Tabs as ARIA describes them: arrow keys move between them, and the panel is tied to its tab.

import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export interface Tab {
  id: string;
  title: string;
  /** A count or a mark after the title. */
  badge?: ComponentChildren;
}

export interface TabsProps {
  /** What the tabs choose: "View of the task". */
  label: string;
  tabs: readonly Tab[];
  selected: string;
  onSelect: (id: string) => void;
  /** The content of the selected tab. */
  children?: ComponentChildren;
}

export function Tabs({ label, tabs, selected, onSelect, children }: TabsProps) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const now = tabs.findIndex((tab) => tab.id === selected);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const index = (next + tabs.length) % tabs.length;
    onSelect(tabs[index]!.id);
    (list.current?.children[index] as HTMLElement | undefined)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map((tab) => (
          <button
            key={tab.id} type="button" role="tab" class="tab" id={`${id}-${tab.id}`} aria-controls={`${id}-panel`}
            aria-selected={tab.id === selected} tabIndex={tab.id === selected ? 0 : -1} onClick={() => onSelect(tab.id)}
          >
            {tab.title}
            {tab.badge !== undefined && <span class="tab-badge">{tab.badge}</span>}
          </button>
        ))}
      </div>
      <div role="tabpanel" class="tab-panel" id={`${id}-panel`} aria-labelledby={`${id}-${selected}`}>{children}</div>
    </>
  );
}
