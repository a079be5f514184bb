// Markdown as Preact elements: never as HTML. What looks like HTML in it is shown as text, pictures become links, and
// links lead only to http, https and mailto, with their host beside them so that a text cannot claim another one.
// Finished blocks are kept in pages that are never rendered again, so that a long text may grow cheaply.

import type { ComponentChildren, JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { Code } from "./code.tsx";
import { safeLink } from "./links.ts";
import { MarkdownPieces, type Piece } from "./markdown_blocks.ts";
import type { Inline } from "./markdown_inline.ts";
import type { MarkdownBlock } from "./markdown_lines.ts";
import { memo } from "./memo.ts";

/** Characters that are rendered of one text. The rest can be copied or downloaded. */
export const MAX_MARKDOWN = 1_000_000;

const PAGE = 50;

interface Page {
  number: number;
  pieces: readonly Piece[];
}

/** A text of an agent. It may grow: only its end is read and rendered again then. */
export function Markdown({ text, isOpen = false }: { text: string; isOpen?: boolean }) {
  const known = useRef<{ pieces: MarkdownPieces; pages: Page[] }>({ pieces: new MarkdownPieces(), pages: [] });
  const shown = text.length > MAX_MARKDOWN ? text.slice(0, MAX_MARKDOWN) : text;
  if (!known.current.pieces.update(shown)) {
    known.current = { pieces: new MarkdownPieces(), pages: [] };
    known.current.pieces.update(shown);
  }
  const { pieces: { finished, open }, pages } = known.current;
  while ((pages.length + 1) * PAGE <= finished.length) {
    const start = pages.length * PAGE;
    pages.push({ number: pages.length, pieces: finished.slice(start, start + PAGE) });
  }
  const first = pages.length * PAGE;
  return (
    <div class={isOpen ? "md md-open" : "md"} dir="auto">
      {pages.map((page) => <FinishedPage key={`page-${page.number}`} page={page} />)}
      {finished.slice(first).map((piece, index) => <PieceView key={first + index} piece={piece} />)}
      {open && <PieceView key={finished.length} piece={open} isOpen={isOpen} />}
    </div>
  );
}

const FinishedPage = memo(function FinishedPage({ page }: { page: Page }) {
  return <div class="md-page">{page.pieces.map((piece, index) => <PieceView key={index} piece={piece} />)}</div>;
});

const PieceView = memo(function PieceView({ piece, isOpen = false }: { piece: Piece; isOpen?: boolean }) {
  return <>{piece.blocks.map((block, index) => <BlockView key={index} block={block} isOpen={isOpen} />)}</>;
});

function BlockView({ block, isOpen = false }: { block: MarkdownBlock; isOpen?: boolean }): JSX.Element {
  switch (block.kind) {
    case "paragraph":
      return <p>{inline(block.inside)}</p>;
    case "heading":
      return <Heading depth={block.depth}>{inline(block.inside)}</Heading>;
    case "quote":
      return <blockquote>{block.inside.map((each, index) => <BlockView key={index} block={each} />)}</blockquote>;
    case "list":
      return <List list={block} />;
    case "table":
      return <Table table={block} />;
    case "code":
      return <Code text={block.text} language={block.language} isOpen={isOpen} />;
    case "rule":
      return <hr />;
  }
}

function inline(nodes: readonly Inline[]): ComponentChildren {
  return nodes.map((node, index) => (typeof node === "string" ? node : <InlineView key={index} node={node} />));
}

function InlineView({ node }: { node: Exclude<Inline, string> }): JSX.Element {
  switch (node.kind) {
    case "strong":
      return <strong>{inline(node.inside)}</strong>;
    case "em":
      return <em>{inline(node.inside)}</em>;
    case "del":
      return <del>{inline(node.inside)}</del>;
    case "code":
      return <code>{node.text}</code>;
    case "break":
      return <br />;
    case "link":
      return <SafeLink href={node.href} text={node.text}>{inline(node.inside)}</SafeLink>;
    case "picture":
      // A picture elsewhere is not loaded: its server would learn who reads, and when.
      return <SafeLink href={node.href} text={node.text}>Picture: {node.text || "without a name"}</SafeLink>;
  }
}

/** A heading, below those of the page. */
function Heading({ depth, children }: { depth: number; children: ComponentChildren }) {
  const level = Math.min(depth + 2, 6) as 3 | 4 | 5 | 6;
  const Tag = `h${level}` as "h3" | "h4" | "h5" | "h6";
  return <Tag class={`md-h${depth}`}>{children}</Tag>;
}

function List({ list: { start, isLoose, items } }: { list: Extract<MarkdownBlock, { kind: "list" }> }) {
  const shown = items.map(({ isDone, inside }, index) => (
    <li key={index}>
      {isDone !== null && <input type="checkbox" disabled checked={isDone} aria-label={isDone ? "Done" : "Not done"} />}
      {inside.map((block, at) =>
        block.kind === "paragraph" && !isLoose ? <span key={at}>{inline(block.inside)}</span> : <BlockView key={at} block={block} />)}
    </li>
  ));
  return start === null ? <ul>{shown}</ul> : <ol start={start}>{shown}</ol>;
}

function Table({ table: { align, head, rows } }: { table: Extract<MarkdownBlock, { kind: "table" }> }) {
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Table">
      <table class="md-table">
        <thead><tr>{head.map((cell, index) => <th key={index} scope="col" class={`md-${align[index]}`}>{inline(cell)}</th>)}</tr></thead>
        <tbody>
          {rows.map((row, number) => (
            <tr key={number}>{row.map((cell, index) => <td key={index} class={`md-${align[index]}`}>{inline(cell)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A link to elsewhere, with its host unless the text is the address; only text if the address is not a safe one. */
export function SafeLink({ href, text, children }: { href: string; text: string; children: ComponentChildren }) {
  const link = useMemo(() => safeLink(href), [href]);
  if (!link) return <span class="md-no-link">{children} ({href.slice(0, 200)})</span>;
  const isPlain = text === href || text === link.href || `mailto:${text}` === href;
  return (
    <>
      <a href={link.href} target="_blank" rel="noopener noreferrer nofollow">{children}</a>
      {!isPlain && <span class="md-host"> ({link.host})</span>}
    </>
  );
}
