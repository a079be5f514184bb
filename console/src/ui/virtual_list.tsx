// A list of any length: only the rows in view are in the document. Rows may differ in height; they are measured when they
// are shown. The keyboard moves through it (arrows, j and k, Home, End, Page keys), and the selected row stays in view.
// What is in view stays where it is when rows above it change their height or are added.

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights } from "./heights.ts";

export interface VirtualListHandle {
  /** Bring a row into view. */
  scrollTo: (index: number, where?: "nearest" | "center") => void;
}

export interface VirtualListProps<Item> {
  /** What the list holds, for screen readers. */
  label: string;
  items: readonly Item[];
  itemKey: (item: Item, index: number) => string | number;
  /** The usual height of a row in pixels. */
  estimate: number;
  render: (item: Item, index: number, isSelected: boolean) => ComponentChildren;
  /** The index of the selected row, -1 for none. Without `onSelect` the list only scrolls. */
  selected?: number;
  onSelect?: (index: number) => void;
  /** Other keys, when the list has the focus. */
  onKeyDown?: (event: KeyboardEvent) => void;
  /** Stay at the end while rows are added there, unless the user has scrolled away. */
  follow?: boolean;
  /** The end is near: load more. */
  onEnd?: () => void;
  handle?: RefObject<VirtualListHandle>;
  class?: string;
}

const MORE_ROWS = 6;

export function VirtualList<Item>(props: VirtualListProps<Item>) {
  const { label, items, itemKey, estimate, render, selected = -1, onSelect, follow, onEnd } = props;
  const box = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(estimate), [estimate]);
  const firstKey = useRef<string | number | null>(null);
  const isAtEnd = useRef(true);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [, measured] = useState(0);

  const moved = keepHeights(heights, items, itemKey, firstKey);
  const [first, end] = heights.window(view.top + moved, view.height, MORE_ROWS);

  useLayoutEffect(() => {
    if (moved && box.current) box.current.scrollTop += moved;
  });

  useLayoutEffect(() => {
    const element = box.current!;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const size = new ResizeObserver(look);
    size.observe(element);
    look();
    return () => size.disconnect();
  }, []);

  // After every rendering: measure what is shown, and keep what is in view where it is.
  useLayoutEffect(() => {
    const element = box.current!;
    let above = 0;
    let changed = false;
    for (const row of element.querySelectorAll<HTMLElement>(":scope > .virtual-rows > [data-index]")) {
      const index = Number(row.dataset["index"]);
      if (index >= heights.length) continue;
      const isAbove = heights.offset(index) + heights.get(index) <= element.scrollTop;
      const change = heights.set(index, row.offsetHeight);
      changed ||= change !== 0;
      if (isAbove) above += change;
    }
    if (follow && isAtEnd.current) element.scrollTop = element.scrollHeight;
    else if (above) element.scrollTop += above;
    if (changed) measured((round) => round + 1);
  });

  const scrollTo: VirtualListHandle["scrollTo"] = (index, where = "nearest") => {
    const element = box.current;
    if (!element) return; // the list is gone, and a frame that was to scroll it comes late
    const top = heights.offset(index);
    const bottom = top + heights.get(index);
    const { scrollTop, clientHeight } = element;
    if (where === "center") element.scrollTop = (top + bottom - clientHeight) / 2;
    else if (top < scrollTop) element.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) element.scrollTop = bottom - clientHeight;
  };
  useEffect(() => {
    if (props.handle) props.handle.current = { scrollTo };
  });

  const onScroll = () => {
    const element = box.current!;
    isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
    setView({ top: element.scrollTop, height: element.clientHeight });
    if (element.scrollTop + 2 * element.clientHeight > element.scrollHeight) onEnd?.();
  };

  const select = (index: number) => {
    if (!items.length) return;
    const next = Math.max(0, Math.min(items.length - 1, index));
    onSelect?.(next);
    scrollTo(next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    props.onKeyDown?.(event);
    if (event.defaultPrevented || !onSelect || event.target !== box.current) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(view.height / estimate) - 1);
    const to = nextIndex(event.key, selected, items.length, page);
    if (to !== null) {
      event.preventDefault();
      select(to);
    }
  };

  const rows = [];
  for (let index = first; index < Math.min(end, items.length); index++) {
    const item = items[index]!;
    const isSelected = index === selected;
    rows.push(
      <div
        key={itemKey(item, index)}
        data-index={index}
        id={isSelected ? `${props.label}-selected`.replace(/\W+/g, "-") : undefined}
        class={isSelected ? "virtual-row is-selected" : "virtual-row"}
        role={onSelect ? "option" : "listitem"}
        aria-selected={onSelect ? isSelected : undefined}
        aria-setsize={items.length}
        aria-posinset={index + 1}
        onClick={onSelect && (() => onSelect(index))}
      >
        {render(item, index, isSelected)}
      </div>,
    );
  }
  const isSelectedShown = selected >= first && selected < end;
  return (
    <div
      ref={box}
      class={`virtual ${props.class ?? ""}`}
      tabIndex={0}
      role={onSelect ? "listbox" : "list"}
      aria-label={label}
      aria-activedescendant={onSelect && isSelectedShown ? `${label}-selected`.replace(/\W+/g, "-") : undefined}
      onScroll={onScroll}
      onKeyDown={onKeyDown}
    >
      {/* Its height does not depend on its rows: the browser would scroll back while some are removed and others not there yet. */}
      <div class="virtual-rows" role="presentation" style={{ height: `${heights.total}px`, paddingTop: `${heights.offset(first)}px` }}>
        {rows}
      </div>
    </div>
  );
}

/** Tell the heights about the items; returns by how much rows that were added before the first move the others. */
function keepHeights<Item>(
  heights: Heights, items: readonly Item[], itemKey: (item: Item, index: number) => string | number,
  firstKey: { current: string | number | null },
): number {
  const before = firstKey.current;
  firstKey.current = items.length ? itemKey(items[0]!, 0) : null;
  const added = items.length - heights.length;
  if (before !== null && before !== firstKey.current && added > 0 && added < items.length) {
    if (itemKey(items[added]!, added) === before) {
      heights.prepend(added);
      return heights.offset(added);
    }
  }
  if (added !== 0) heights.resize(items.length);
  return 0;
}

/** Where a key leads in a list: null if it is not for lists. `now` may be -1. */
export function nextIndex(key: string, now: number, count: number, page: number): number | null {
  switch (key) {
    case "ArrowDown":
    case "j":
      return Math.min(count - 1, now + 1);
    case "ArrowUp":
    case "k":
      return Math.max(0, now - 1);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    case "PageDown":
      return Math.min(count - 1, Math.max(0, now) + page);
    case "PageUp":
      return Math.max(0, now - page);
    default:
      return null;
  }
}
