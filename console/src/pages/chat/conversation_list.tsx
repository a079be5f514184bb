// The conversations with an agent: those of this tab, and those that the server knows. On small screens it is folded.

import type { Agent } from "../../api/types.ts";
import { links } from "../../router.ts";
import { countText } from "../../text/safe.ts";
import { Button, IconButton, Time } from "../../ui/index.ts";
import { useState } from "preact/hooks";
import { forgetConversation, rows } from "./conversations.ts";

const MAX_SHOWN = 50;

export function ConversationList({ agent, context, onNew }: { agent: Agent; context: string; onNew: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const all = rows.value.filter((row) => row.agent === agent.id);
  return (
    <nav class={isOpen ? "chat-side is-open" : "chat-side"} aria-label="Conversations">
      <div class="chat-side-head">
        <Button icon="plus" onClick={() => { setOpen(false); onNew(); }}>New conversation</Button>
        <button type="button" class="button button-quiet chat-side-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {countText(all.length)} earlier
        </button>
      </div>
      {all.length === 0 && <p class="dim chat-side-none">No conversation yet.</p>}
      <ul class="plain chat-rows">
        {all.slice(0, MAX_SHOWN).map((row) => (
          <li key={row.context} class={row.context === context ? "is-here" : undefined}>
            <a href={links.chat(agent.id, row.context)} aria-current={row.context === context ? "page" : undefined} onClick={() => setOpen(false)}>
              <span class="cut"><bdi>{row.title}</bdi></span>
              <Time at={row.at} />
            </a>
            <IconButton icon="close" label={`Take ${row.title} off the list`} small onClick={() => forgetConversation(row)} />
          </li>
        ))}
      </ul>
    </nav>
  );
}
