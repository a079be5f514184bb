// The parts of a message or an artifact: text as Markdown, code or data, files, pictures and data.
// Bounded: very many parts, very long texts and very large files are named with their size and can be saved.

import "../styles/content.css";
import { useMemo } from "preact/hooks";
import { hasData, type Part } from "../a2a/types.ts";
import { bytesText, countText, safeText } from "../text/safe.ts";
import { Button } from "../ui/index.ts";
import { Code } from "./code.tsx";
import { jsonIn } from "./data_rows.ts";
import { DataView } from "./data_view.tsx";
import { FileView, UrlFileView } from "./file_view.tsx";
import { fileName, mediaTypeOf, saveAs } from "./file_bytes.ts";
import { Markdown, MAX_MARKDOWN } from "./markdown.tsx";

const MAX_PARTS = 100;
const MAX_PLAIN = 200_000;

export interface PartsProps {
  parts: readonly Part[];
  /** The agent's id, for files that it names by URL. */
  agent?: string | undefined;
  /** More text may follow. */
  isOpen?: boolean;
  /** Text is not Markdown: what the user has written. */
  isPlain?: boolean;
}

/** All parts, one below the other. */
export function Parts({ parts, agent, isOpen = false, isPlain = false }: PartsProps) {
  const whole = useMemo(() => joined(parts), [parts]);
  const rest = whole.length - MAX_PARTS;
  return (
    <div class="parts">
      {whole.slice(0, MAX_PARTS).map((part, index) => (
        <PartView key={index} part={part} agent={agent} isOpen={isOpen && index === whole.length - 1} isPlain={isPlain} />
      ))}
      {rest > 0 && (
        <p class="note">
          {countText(rest)} more parts are not shown.{" "}
          <Button kind="quiet" small icon="download" onClick={() => saveAs([JSON.stringify(parts)], "parts.json")}>Save all as JSON</Button>
        </p>
      )}
    </div>
  );
}

/** Whether a part is text and nothing else, so that it makes no difference where it is cut. */
export function isPlainText(part: Part): boolean {
  return part.text !== undefined && !part.mediaType && !part.filename && !Object.keys(part.metadata ?? {}).length;
}

/** Parts in which plain texts that follow each other are one. */
export function joined(parts: readonly Part[]): Part[] {
  const whole: Part[] = [];
  let texts: string[] = [];
  const close = () => {
    if (texts.some(Boolean)) whole.push({ text: texts.join("") });
    texts = [];
  };
  for (const part of parts) {
    if (isPlainText(part)) texts.push(part.text!);
    else {
      close();
      whole.push(part);
    }
  }
  close();
  return whole;
}

interface PartProps {
  part: Part;
  agent: string | undefined;
  isOpen: boolean;
  isPlain: boolean;
}

function PartView({ part, agent, isOpen, isPlain }: PartProps) {
  if (typeof part.text === "string") return <TextView part={part} text={part.text} isOpen={isOpen} isPlain={isPlain} />;
  if (typeof part.raw === "string") return <FileView part={part} />;
  if (typeof part.url === "string") return <UrlFileView part={part} agent={agent} />;
  if (hasData(part)) return <DataView value={part.data ?? null} />;
  return <p class="note">The agent sent a part without content.</p>;
}

/** Text by its media type: Markdown unless it says otherwise; what is JSON as data, once it is whole. */
function TextView({ part, text, isOpen, isPlain }: { part: Part; text: string; isOpen: boolean; isPlain: boolean }) {
  const type = mediaTypeOf(part.mediaType);
  const data = useMemo(() => (isOpen || isPlain ? undefined : jsonIn(text)), [text, isOpen, isPlain]);
  if (data !== undefined) return <DataView value={data} label="Text that is JSON" />;
  if (isPlain || type === "text/plain") return <PlainText text={text} />;
  if (type && type !== "text/markdown") return <Code text={text.slice(0, MAX_PLAIN)} language={languageOf(type)} isOpen={isOpen} />;
  return (
    <>
      <Markdown text={text} isOpen={isOpen} />
      {text.length > MAX_MARKDOWN && <LongText text={text} shown={MAX_MARKDOWN} isOpen={isOpen} />}
    </>
  );
}

function PlainText({ text }: { text: string }) {
  const shown = useMemo(() => safeText(text.slice(0, MAX_PLAIN)), [text]);
  return (
    <>
      <p class="plain" dir="auto">{shown}</p>
      {text.length > MAX_PLAIN && <LongText text={text} shown={MAX_PLAIN} isOpen={false} />}
    </>
  );
}

/** What is said below a text that is too long to be shown whole. */
function LongText({ text, shown, isOpen }: { text: string; shown: number; isOpen: boolean }) {
  return (
    <p class="note long-text">
      {bytesText(text.length)} of text{isOpen ? " so far" : ""}; the first {bytesText(shown)} are shown.{" "}
      <Button kind="quiet" small icon="download" onClick={() => saveAs([text], fileName("text.md"))}>Save all</Button>
    </p>
  );
}

function languageOf(type: string): string {
  const name = type.split("/")[1] ?? "";
  return name.replace(/^x-/, "").replace(/^.*\+/, "");
}
