// One line in full, next to its translation on the other side of a proxy, and the other lines of its exchange.

import type { JsonValue } from "../../a2a/types.ts";
import { DataView } from "../../content/data_view.tsx";
import { bytesText, durationText, plural, safeText, shortLine } from "../../text/safe.ts";
import { clockText, CopyButton, EmptyState, Facts, Name, Tag, Time } from "../../ui/index.ts";
import { titleOf } from "./list.tsx";
import { counterpart, isFar, type HeldLine } from "./wire_log.ts";

export interface WireDetailProps {
  line: HeldLine | null;
  lines: readonly HeldLine[];
  onSelect: (key: number) => void;
}

/** Lines of an exchange that are listed; a stream may have 100,000. */
const MOST_LISTED = 200;

export function WireDetail({ line, lines, onSelect }: WireDetailProps) {
  if (!line) return <EmptyState title="No line is selected" icon="info">Choose a line to read its headers and its body.</EmptyState>;
  const other = counterpart(lines, line);
  const [near, far] = isFar(line) ? [other, line] : [line, other];
  return (
    <section class="wire-detail" aria-label="The selected line">
      <div class={other ? "wire-sides" : undefined}>
        {near && <Side line={near} isSelected={near === line} />}
        {far && <Side line={far} isSelected={far === line} />}
      </div>
      {line.group && <ExchangeLines line={line} lines={lines} onSelect={onSelect} />}
    </section>
  );
}

function Side({ line, isSelected }: { line: HeldLine; isSelected: boolean }) {
  const headers = Object.entries(line.headers ?? {});
  return (
    <article class={isSelected ? "wire-card is-selected" : "wire-card"}>
      <header class="wire-card-head">
        <h2>{shortLine(line.direction, 30)}</h2>
        <Tag>{shortLine(`${line.version} ${line.binding}`, 40)}</Tag>
        <Tag>{shortLine(line.kind, 20)}</Tag>
        <CopyButton label="Copy line" iconOnly text={() => JSON.stringify(shownMembers(line), null, 2)} />
      </header>
      <p class={line.failed ? "wire-card-title is-failed" : "wire-card-title"}><Name text={titleOf(line)} length={160} canExpand /></p>
      <Facts
        facts={[
          ["Time", <Time at={line.at} as="clock" />],
          ["Agent", <Name text={line.agent} />],
          ["Caller", line.caller && <Name text={line.caller} />],
          ["Size", bytesText(line.size)],
          ["Took", line.milliseconds === null ? null : durationText(line.milliseconds)],
        ]}
      />
      {headers.length > 0 && (
        <details class="wire-headers" open={headers.length < 9}>
          <summary>{plural(headers.length, "header")}</summary>
          <dl>
            {headers.map(([name, value]) => (
              <div key={name}><dt>{shortLine(name, 60)}</dt><dd>{safeText(String(value).slice(0, 2_000))}</dd></div>
            ))}
          </dl>
        </details>
      )}
      <Body line={line} />
    </article>
  );
}

function Body({ line }: { line: HeldLine }) {
  if (line.is_cut) return <p class="dim">The body of {bytesText(line.size)} is too long to be shown here. The log of its task has it.</p>;
  if (line.body === null || line.body === undefined) return <p class="dim">There is no body.</p>;
  if (typeof line.body === "string") return <pre class="wire-text" tabIndex={0}>{safeText(line.body.slice(0, 100_000))}</pre>;
  return <DataView value={line.body as JsonValue} label="Body" />;
}

/** The members of the contract, without what the page adds. */
function shownMembers(line: HeldLine): object {
  const { key: _key, group: _group, text: _text, ...rest } = line;
  return rest;
}

function ExchangeLines({ line, lines, onSelect }: { line: HeldLine; lines: readonly HeldLine[]; onSelect: (key: number) => void }) {
  const same = lines.filter((each) => each.group === line.group);
  if (same.length < 2) return null;
  return (
    <details class="wire-same" open={same.length < 20}>
      <summary>Exchange {line.exchange}: {same.length} lines</summary>
      <ol>
        {same.slice(0, MOST_LISTED).map((each) => (
          <li key={each.key}>
            <button type="button" class="link" aria-current={each === line ? "true" : undefined} onClick={() => onSelect(each.key)}>
              {clockText(Date.parse(each.at))} {each.direction} {shortLine(each.kind, 12)} {shortLine(each.what, 60)}
            </button>
          </li>
        ))}
      </ol>
      {same.length > MOST_LISTED && <p class="dim">The first {MOST_LISTED} are listed. The others are in the list of lines.</p>}
    </details>
  );
}
