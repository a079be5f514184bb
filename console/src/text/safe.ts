// Foreign text, made safe to show: control characters, bidirectional controls and invisible characters become visible
// escapes such as ⟨U+202E⟩, so that no text can hide, reverse or imitate another. The same set as src/parley/safe_text.py,
// and the characters without width or ink that can make two names look alike.
// JSX escapes HTML by itself; this is about what remains.

// Controls but tab and newline, line separators, bidirectional controls, lone surrogates, noncharacters, invisibles, tags.
const UNSAFE =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]/g;

/** A character as a visible escape. */
export function escapeOf(character: string): string {
  return `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Text of several lines. Tabs and newlines stay; CR LF becomes a newline. */
export function safeText(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(UNSAFE, escapeOf);
}

/** Text on one line, for names, titles and errors. */
export function safeLine(text: string): string {
  return safeText(text.replace(/[\t\n\r ]+/g, " ").trim());
}

export const NAME_LENGTH = 120;

/** Text on one line, with at most so many characters; "…" at its end if it was longer. Never cuts a pair of surrogates. */
export function shortLine(text: string, length = NAME_LENGTH): string {
  // Twice the length before the search for unsafe characters: a name of 10 MB must cost nothing.
  const line = safeLine(text.length > 4 * length ? text.slice(0, 4 * length) : text);
  if (line.length <= length) return text.length > 4 * length ? `${line}…` : line;
  const cut = line.slice(0, length - 1);
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}

/** An http or https URL that may be a link, or null. Everything else (`javascript:`, `data:`, `file:`) is text. */
export function safeUrl(text: string): URL | null {
  if (!/^https?:\/\//i.test(text)) return null;
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch {
    return null;
  }
}

/** 1234 → "1.2 kB". */
export function bytesText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[power - 1]}`;
}

/** 12.4 → "12 ms", 1234 → "1.2 s", 75000 → "1 min 15 s". */
export function durationText(milliseconds: number): string {
  if (milliseconds < 1) return `${Math.max(0, milliseconds).toFixed(1)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** 12345 → "12,345". */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** "1 task", "2 tasks". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}
