// Foreign names and lines: safe, short, with the full text on demand.

import { useState } from "preact/hooks";
import { safeText, shortLine } from "../text/safe.ts";

export interface NameProps {
  text: string | null | undefined;
  /** How many characters are shown. */
  length?: number;
  /** What to show if there is none. */
  none?: string;
  /** A button shows the whole text, if it was cut. Not inside links and buttons. */
  canExpand?: boolean;
}

/** A foreign name on one line. The direction of its text cannot spread to its surroundings. */
export function Name({ text, length = 80, none = "–", canExpand }: NameProps) {
  const [isWhole, setWhole] = useState(false);
  if (!text) return <span class="dim">{none}</span>;
  const short = shortLine(text, length);
  const isCut = short.endsWith("…") && text.length > short.length;
  if (isWhole) {
    return (
      <span class="name-whole">
        <bdi>{safeText(text)}</bdi> <button type="button" class="link" onClick={() => setWhole(false)}>Less</button>
      </span>
    );
  }
  return (
    <>
      <bdi title={isCut ? shortLine(text, 1000) : undefined}>{short}</bdi>
      {isCut && canExpand && <> <button type="button" class="link" onClick={() => setWhole(true)}>More</button></>}
    </>
  );
}

/** An id in the code font, shortened in the middle: "7f3a…91c2". The whole id is its title. */
export function Id({ text, length = 12 }: { text: string; length?: number }) {
  const line = shortLine(text, 400);
  const half = Math.floor((length - 1) / 2);
  return <code class="id" title={line}>{line.length > length ? `${line.slice(0, half)}…${line.slice(-half)}` : line}</code>;
}
