// A block of code with its language, a button to copy it, and colours.
// Long code is not coloured: it would take longer than reading it. Code that still grows is coloured when it is whole.

import "../styles/content.css";
import { useMemo } from "preact/hooks";
import { highlight, type Piece } from "./highlight.ts";
import { safeText, shortLine } from "../text/safe.ts";
import { CopyButton } from "../ui/index.ts";

/** Characters of code that are coloured. */
export const MAX_HIGHLIGHTED = 50_000;

/** Characters of a line. Such lines are data, and thousands of elements in one line take a browser long. */
const MAX_LINE = 2_000;

export interface CodeProps {
  text: string;
  language?: string;
  isOpen?: boolean;
}

/** Code of any language. */
export function Code({ text, language = "", isOpen = false }: CodeProps) {
  const shown = useMemo(() => safeText(text), [text]);
  const pieces = useMemo(
    () => (isOpen || shown.length > MAX_HIGHLIGHTED || hasLongLine(shown) ? null : highlight(shown, language)),
    [shown, language, isOpen],
  );
  const label = shortLine(language, 30) || "code";
  return (
    <figure class="code-block">
      <figcaption>
        <span>{label}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0} aria-label={`Code, ${label}`} dir="ltr"><code>{pieces ? pieces.map(Colored) : shown}</code></pre>
    </figure>
  );
}

function Colored(piece: Piece, index: number) {
  return typeof piece === "string" ? piece : <span key={index} class={`hl-${piece.kind}`}>{piece.text}</span>;
}

function hasLongLine(text: string): boolean {
  return text.split("\n").some((line) => line.length > MAX_LINE);
}
