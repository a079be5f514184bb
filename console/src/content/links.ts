// Which links of foreign text lead anywhere, and what foreign text means by character references.
// Only http, https and mailto are links. The host is shown as the browser will use it, in ASCII (xn--…).

import { safeText } from "../text/safe.ts";

export interface Link {
  href: string;
  host: string;
}

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const MAX_HREF = 4_000;

/** A link that is safe to follow, or null: a relative one, one of another scheme, or one with a password in it. */
export function safeLink(address: string): Link | null {
  if (address.length > MAX_HREF) return null;
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!SCHEMES.has(url.protocol) || url.username || url.password) return null;
  return { href: url.href, host: url.protocol === "mailto:" ? "e-mail" : url.host };
}

const NAMED: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–", copy: "©",
  reg: "®", deg: "°", times: "×", rarr: "→", larr: "←", euro: "€", middot: "·", bull: "•",
};

/** Text with its character references replaced: `&amp;` and `&#38;` are `&`. Those that are not known stay. */
export function decodeEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{2,8}));/g, (whole, decimal, hex, name: string) => {
    if (name) return NAMED[name] ?? whole;
    const code = decimal ? Number(decimal) : Number.parseInt(String(hex), 16);
    // What a reference must not bring in is what is made visible where the text has it as it is.
    return code <= 0x10ffff ? safeText(String.fromCodePoint(code)) : whole;
  });
}
