// The keyboard of a tree grid, by the pattern of the ARIA Authoring Practices: one row has the focus, arrows move
// between rows and open or close them. Pure: from the rows, the focused row and a key to what happens.

import type { TreeRow } from "./model.ts";

export type TreeAction =
  | { do: "focus"; index: number }
  | { do: "expand" | "collapse" | "open" | "zoom"; index: number }
  | { do: "expand-siblings"; index: number }
  | { do: "zoom-out" };

const PAGE_ROWS = 10;

/** What a key does in a row; null if nothing, so that the browser or another handler may use it. */
export function treeAction(key: string, rows: readonly TreeRow[], index: number): TreeAction | null {
  const row = rows[index];
  if (row === undefined) return rows.length > 0 && key.startsWith("Arrow") ? { do: "focus", index: 0 } : null;
  const to = (target: number): TreeAction => ({ do: "focus", index: Math.min(rows.length - 1, Math.max(0, target)) });
  switch (key) {
    case "ArrowDown":
      return to(index + 1);
    case "ArrowUp":
      return to(index - 1);
    case "PageDown":
      return to(index + PAGE_ROWS);
    case "PageUp":
      return to(index - PAGE_ROWS);
    case "Home":
      return to(0);
    case "End":
      return to(rows.length - 1);
    case "ArrowRight":
      if (!row.hasChildren) return null;
      return row.isExpanded ? to(index + 1) : { do: "expand", index };
    case "ArrowLeft":
      if (row.isExpanded) return { do: "collapse", index };
      return row.level > 1 ? to(parentIndex(rows, index)) : null;
    case "Enter":
      return { do: "open", index };
    case " ":
      return row.hasChildren ? { do: row.isExpanded ? "collapse" : "expand", index } : null;
    case "*":
      return { do: "expand-siblings", index };
    case "z":
      return { do: "zoom", index };
    case "Escape":
    case "Backspace":
      return { do: "zoom-out" };
    default:
      return null;
  }
}

function parentIndex(rows: readonly TreeRow[], index: number): number {
  const level = rows[index]!.level;
  let at = index - 1;
  while (at > 0 && rows[at]!.level >= level) at--;
  return Math.max(0, at);
}
