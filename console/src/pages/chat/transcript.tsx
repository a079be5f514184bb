// The conversation as a log: it stays at its end while the agent writes, unless the reader has scrolled away.
// Screen readers do not hear it by itself, since it changes with every token: the conversation announces whole sentences.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { countText } from "../../text/safe.ts";
import { Button, toastError } from "../../ui/index.ts";
import type { Conversation } from "./conversation.ts";
import { ExchangeView, type ExchangeActions } from "./exchange_view.tsx";

/** Exchanges in the page; earlier ones on demand. */
const PAGE = 20;
/** How near to the end counts as at the end, in pixels. */
const NEAR = 40;

interface TranscriptProps {
  conversation: Conversation;
  actions: ExchangeActions;
  children: ComponentChildren;
}

export function Transcript({ conversation, actions, children }: TranscriptProps) {
  const exchanges = conversation.exchanges.value;
  const [pages, setPages] = useState(1);
  const first = Math.max(0, exchanges.length - pages * PAGE);
  const { agent } = conversation;
  const { box, content, isAtEnd, goToEnd } = useFollowing(exchanges.length === 0);
  const about = { id: agent.id, name: agent.name };
  return (
    <div class="transcript-frame">
      <div class="transcript" role="log" aria-live="off" aria-label="Conversation" tabIndex={0} ref={box}>
        <div class="transcript-content" ref={content}>
          <Earlier conversation={conversation} hidden={first} onMore={() => setPages(pages + 1)} />
          {exchanges.length === 0 && children}
          {exchanges.slice(first).map((exchange, index) => (
            <ExchangeView
              key={exchange.message?.messageId || exchange.taskId || first + index} exchange={exchange} agent={about}
              isLast={first + index === exchanges.length - 1} actions={actions}
            />
          ))}
        </div>
      </div>
      {!isAtEnd && <div class="transcript-end"><Button small icon="down" onClick={goToEnd}>To the end</Button></div>}
    </div>
  );
}

function Earlier({ conversation, hidden, onMore }: { conversation: Conversation; hidden: number; onMore: () => void }) {
  if (hidden > 0) return <p class="center"><Button small onClick={onMore}>Show {countText(Math.min(hidden, PAGE))} earlier messages</Button></p>;
  if (!conversation.nextPage.value) return null;
  const load = () => {
    onMore();
    conversation.loadOlder().catch((error: unknown) => toastError(error, "Earlier messages could not be read"));
  };
  return <p class="center"><Button small onClick={load}>Read earlier messages</Button></p>;
}

/** Keep the end in view while the content grows, until the reader scrolls up. What an empty conversation says is read from its start. */
function useFollowing(isEmpty: boolean) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const hasEnd = useRef(false);
  hasEnd.current = !isEmpty;
  const [isAtEnd, setAtEnd] = useState(true);
  useLayoutEffect(() => {
    const element = box.current!;
    let asked: Element | null = null;
    const stay = () => {
      if (follows.current && hasEnd.current) {
        element.scrollTop = element.scrollHeight;
        // A form that does not fit is read from its question on, once: later the reader may be anywhere in it.
        const question = element.querySelector("article:last-child .question");
        const hidden = question && question !== asked ? element.getBoundingClientRect().top - question.getBoundingClientRect().top : 0;
        if (hidden > 0) {
          element.scrollTop -= hidden;
          follows.current = false;
        }
        asked = question;
      }
      setAtEnd(isNear(element));
    };
    let top = element.scrollTop;
    const onScroll = () => {
      // Only a movement upwards is the reader's wish: content that grows moves the end away as well.
      if (element.scrollTop < top && !isNear(element)) follows.current = false;
      if (isNear(element)) follows.current = true;
      top = element.scrollTop;
      setAtEnd(isNear(element));
    };
    const size = new ResizeObserver(stay);
    size.observe(content.current!);
    size.observe(element);
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      size.disconnect();
      element.removeEventListener("scroll", onScroll);
    };
  }, []);
  const goToEnd = () => {
    follows.current = true;
    box.current!.scrollTop = box.current!.scrollHeight;
    setAtEnd(true);
  };
  return { box, content, isAtEnd, goToEnd };
}

function isNear(element: HTMLElement): boolean {
  return element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
}
