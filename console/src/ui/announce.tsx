// What screen readers hear. `announce` says one thing; `SentenceAnnouncer` takes streamed text in chunks and says whole
// sentences, so that a listener hears language and not tokens.

import { signal } from "../signals.ts";

const polite = signal("");
const assertive = signal("");

/** Have screen readers say a text. `isUrgent` interrupts what they say now: errors only. */
export function announce(text: string, isUrgent = false): void {
  const region = isUrgent ? assertive : polite;
  // The same text twice is a change only if it differs: a no-break space at the end makes it.
  region.value = region.peek() === text ? `${text}\u00a0` : text;
}

/** The live regions, which the shell shows once. */
export function LiveRegions() {
  return (
    <>
      <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true">{polite.value}</div>
      <div class="visually-hidden" role="alert" aria-live="assertive" aria-atomic="true">{assertive.value}</div>
    </>
  );
}

const SENTENCE_END = /[.!?…:]["'”’)\]]*(?=\s)|\n+|[。！？]/g;
const LONGEST = 400;
/** Characters of one announcement. The rest is left out: a screen reader would lag behind the text for minutes. */
const MOST_SAID = 4_000;
const PAUSE_MS = 700;

/** Announces streamed text by the sentence, at most one announcement every 0.7 seconds. */
export class SentenceAnnouncer {
  private rest = "";
  private ready = "";
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly say: (text: string) => void = announce) {}

  /** More text has come. */
  add(text: string): void {
    this.rest += text;
    let end = 0;
    for (const found of this.rest.matchAll(SENTENCE_END)) end = found.index + found[0].length;
    if (this.rest.length - end > LONGEST) end = this.rest.length - LONGEST + (this.rest.slice(-LONGEST).lastIndexOf(" ") + 1 || LONGEST);
    if (end > 0) this.take(end);
    if (this.ready && this.timer === null) this.speak();
  }

  /** The text is complete: say what is left. */
  flush(): void {
    this.take(this.rest.length);
    if (this.timer === null && this.ready) this.speak();
  }

  private take(length: number): void {
    if (this.ready.length < MOST_SAID) this.ready = `${this.ready} ${this.rest.slice(0, Math.min(length, MOST_SAID)).trim()}`.trim();
    this.rest = this.rest.slice(length);
  }

  private speak(): void {
    this.say(this.ready);
    this.ready = "";
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.ready) this.speak();
    }, PAUSE_MS);
  }
}
