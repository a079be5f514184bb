// What differs between two versions, member by member: lines for long texts and lists, both values for short ones.
// Removed and added lines begin with − and +, so that colour is not the only sign.

import { safeText, shortLine } from "../../text/safe.ts";
import { hunksOf, lineDiff, type DiffLine, type MemberChange } from "./diff.ts";

export function DiffView({ changes, labels = ["Before", "After"] }: { changes: readonly MemberChange[]; labels?: [string, string] }) {
  if (!changes.length) return <p class="dim">Nothing differs.</p>;
  return (
    <dl class="diff">
      {changes.map((change) => (
        <div key={change.member} class="diff-member">
          <dt><code>{shortLine(change.member, 80)}</code></dt>
          <dd><ValueDiff before={change.before} after={change.after} labels={labels} /></dd>
        </div>
      ))}
    </dl>
  );
}

export function ValueDiff({ before, after, labels }: { before: unknown; after: unknown; labels: [string, string] }) {
  const lines = lineDiff(before, after);
  if (lines) return <LineDiffView lines={lines} />;
  return (
    <div class="diff-values">
      <div class="diff-old"><span class="diff-label">{labels[0]}</span> {valueText(before)}</div>
      <div class="diff-new"><span class="diff-label">{labels[1]}</span> {valueText(after)}</div>
    </div>
  );
}

/** A value as text, cut if it is very long. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined || value === "") return "(empty)";
  return safeText((typeof value === "string" ? value : JSON.stringify(value, null, 2)).slice(0, 20_000));
}

const SIGNS: Record<DiffLine["sign"], [mark: string, word: string, style: string]> = {
  " ": [" ", "", "diff-same"],
  "-": ["−", "removed: ", "diff-old"],
  "+": ["+", "added: ", "diff-new"],
};

function LineDiffView({ lines }: { lines: readonly DiffLine[] }) {
  return (
    <div class="diff-lines" tabIndex={0} role="group" aria-label="Changed lines">
      {hunksOf(lines).map((hunk, index) => (
        <div key={index}>
          {hunk.skipped > 0 && <div class="diff-skipped">{hunk.skipped} unchanged lines</div>}
          {hunk.lines.map((line, at) => {
            const [mark, word, style] = SIGNS[line.sign];
            return (
              <div key={at} class={`diff-line ${style}`}>
                <span class="diff-sign" aria-hidden="true">{mark}</span>
                <span class="visually-hidden">{word}</span>
                <span>{safeText(line.text)}</span>
              </div>
            );
          })}
        </div>
      ))}
    </div>
  );
}
