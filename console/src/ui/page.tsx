// The frame of a page: its heading, which gets the focus after navigation, what can be done, and the content.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { setTitle } from "../router.ts";
import { shortLine } from "../text/safe.ts";

export interface PageProps {
  /** The heading, and the title of the document. */
  title: string;
  /** Beside the heading: a badge, an id. */
  beside?: ComponentChildren;
  /** Buttons at the end of the heading's line. */
  actions?: ComponentChildren;
  /** Links to where this belongs: [["Agents", "/console/agents"]]. */
  trail?: readonly (readonly [title: string, href: string])[];
  children: ComponentChildren;
  /** The content fills the height of the window and scrolls inside itself: lists, chats. */
  fill?: boolean;
}

/** Whether a heading had the focus that is gone: the heading in its place, of the page that has loaded, gets it. */
let hadFocus = false;

export function Page({ title, beside, actions, trail, children, fill }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    const element = heading.current;
    if (hadFocus && document.activeElement === document.body) element?.focus();
    hadFocus = false;
    return () => {
      hadFocus = document.activeElement === element;
    };
  }, []);
  useEffect(() => setTitle(shortLine(title, 80)), [title]);
  return (
    <div class={fill ? "page page-fill" : "page"}>
      <header class="page-head">
        <div class="page-heading">
          {trail?.map(([name, href]) => (
            <span class="page-trail" key={href}><a href={href}>{shortLine(name, 40)}</a><span aria-hidden="true">/</span></span>
          ))}
          <h1 tabIndex={-1} id="page-title" ref={heading}><bdi>{shortLine(title, 80)}</bdi></h1>
          {beside}
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      <div class="page-body">{children}</div>
    </div>
  );
}

/** A titled part of a page. */
export function Section({ title, actions, children }: { title: string; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="section">
      <header class="section-head"><h2>{title}</h2>{actions}</header>
      {children}
    </section>
  );
}

/** Names and values, one below the other: [["Version", "1.0"], …]. Values that are null are left out. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => value !== null && value !== undefined && value !== "" && (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}
