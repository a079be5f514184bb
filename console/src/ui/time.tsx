// Times as people read them: "3 min ago", with the exact time on demand; one clock for all of them.

import { signal } from "../signals.ts";

/** The time now, in milliseconds, which moves every second while the page is visible. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);

const UNITS: [limit: number, size: number, unit: string][] = [
  [60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [86400 * 14, 86400, "d"],
];

/** How long ago: "now", "12 s ago", "3 min ago"; a date if it is two weeks ago or more. In the future: "in 5 s". */
export function relativeText(at: number, from: number): string {
  const seconds = Math.round((from - at) / 1000);
  const distance = Math.abs(seconds);
  if (distance < 3) return "now";
  const found = UNITS.find(([limit]) => distance < limit);
  if (!found) return new Date(at).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
  const text = `${Math.floor(distance / found[1])} ${found[2]}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** Hours to milliseconds, local: "14:03:07.123". */
export function clockText(at: number): string {
  const time = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

export interface TimeProps {
  at: string | null | undefined;
  /** relative: "3 min ago"; clock: "14:03:07.123"; full: date and time. */
  as?: "relative" | "clock" | "full";
}

/** A moment; "–" if it is not known. */
export function Time({ at, as = "relative" }: TimeProps) {
  const moment = at ? Date.parse(at) : NaN;
  if (Number.isNaN(moment)) return <span class="time">–</span>;
  const full = new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const text = as === "relative" ? relativeText(moment, now.value) : as === "clock" ? clockText(moment) : full;
  return <time class="time" dateTime={at!} title={`${full} (${at})`}>{text}</time>;
}
