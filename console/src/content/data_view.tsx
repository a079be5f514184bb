// Data of any size: as a tree, as a table where it is one, or as text, whichever the reader chooses, with copy.

import "../styles/content.css";
import { useMemo, useState } from "preact/hooks";
import type { JsonValue } from "../a2a/types.ts";
import { countText, plural } from "../text/safe.ts";
import { CopyButton } from "../ui/index.ts";
import { Code } from "./code.tsx";
import { countOf, isContainer, jsonText, tableOf } from "./data_rows.ts";
import { DataTable } from "./data_table.tsx";
import { DataTree } from "./data_tree.tsx";

/** Characters of JSON that are shown as text. */
const MAX_TEXT = 200_000;

type View = "table" | "tree" | "text";
const NAMES: Record<View, string> = { table: "Table", tree: "Tree", text: "JSON" };

export interface DataViewProps {
  value: JsonValue;
  /** What it is, for screen readers and the heading. */
  label?: string;
}

/** JSON for people. */
export function DataView({ value, label = "Data" }: DataViewProps) {
  const table = useMemo(() => tableOf(value), [value]);
  const [chosen, choose] = useState<View | null>(null);
  const views: View[] = table ? ["table", "tree", "text"] : ["tree", "text"];
  const view = chosen && views.includes(chosen) ? chosen : views[0]!;
  if (!isContainer(value) || countOf(value) === 0) return <Code text={jsonText(value)} language="json" />;
  return (
    <div class="data" role="group" aria-label={label}>
      <header class="data-bar">
        <div role="group" aria-label="View" class="switch">
          {views.map((each) => (
            <button key={each} type="button" aria-pressed={each === view} onClick={() => choose(each)}>{NAMES[each]}</button>
          ))}
        </div>
        <CopyButton text={() => jsonText(value)} label="Copy" />
      </header>
      {view === "table" && table && <DataTable table={table} label={label} />}
      {view === "tree" && <DataTree value={value} label={label} />}
      {view === "text" && <JsonText value={value} />}
    </div>
  );
}

function JsonText({ value }: { value: JsonValue }) {
  const text = useMemo(() => jsonText(value), [value]);
  if (text.length <= MAX_TEXT) return <Code text={text} language="json" />;
  return (
    <>
      <p class="note">Only the first {countText(MAX_TEXT)} of {plural(text.length, "character")} are shown. Copy has all.</p>
      <Code text={text.slice(0, MAX_TEXT)} language="json" />
    </>
  );
}
