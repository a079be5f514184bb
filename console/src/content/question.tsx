// What an agent wants to know before it goes on, answered in place: a form, a text, or a permission from elsewhere.
// It only asks; what becomes of the answer is for its user.

import "../styles/content.css";
import { useMemo, useState } from "preact/hooks";
import type { Artifact, Part, TaskStatus } from "../a2a/types.ts";
import { shortLine } from "../text/safe.ts";
import { Button, Icon } from "../ui/index.ts";
import { safeLink } from "./links.ts";
import { Markdown } from "./markdown.tsx";
import { Parts } from "./parts.tsx";
import { addressesIn, partsForPeople, questionOf } from "./questions.ts";
import { formIn } from "./schema_fields.ts";
import { SchemaForm } from "./schema_form.tsx";

export interface QuestionProps {
  status: TaskStatus;
  artifacts: readonly Artifact[];
  /** The agent's id, for files. */
  agent?: string | undefined;
  isBusy?: boolean;
  /** Text is answered here; otherwise somewhere else on the page, as `elsewhere` says. */
  elsewhere?: string;
  onAnswer: (parts: Part[]) => void;
}

/** The question of a task that waits. */
export function Question({ status, artifacts, agent, isBusy = false, elsewhere, onAnswer }: QuestionProps) {
  const parts = partsForPeople(status.message);
  const schema = useMemo(() => formIn(parts), [status]);
  const isAuth = status.state === "TASK_STATE_AUTH_REQUIRED";
  const text = useMemo(() => questionOf(status, artifacts), [status, artifacts]);
  const rest = parts.filter((part) => part.text === undefined && (schema === null || part.data !== schema));
  return (
    <section class="question" aria-label={isAuth ? "The agent needs a permission" : "The agent asks"}>
      <p class="question-head"><Icon name={isAuth ? "lock" : "help"} /> {isAuth ? "The agent needs a permission" : "The agent asks"}</p>
      {!(schema && isJsonOf(text, schema)) && <Markdown text={text} />}
      {rest.length > 0 && <Parts parts={rest} agent={agent} />}
      {isAuth && <Permission status={status} isBusy={isBusy} onAnswer={onAnswer} />}
      {!isAuth && schema && (
        <SchemaForm schema={schema} isBusy={isBusy} onSubmit={(answer) => onAnswer([{ data: answer, mediaType: "application/json" }])} />
      )}
      {!isAuth && !schema && (elsewhere ? <p class="dim">{elsewhere}</p> : <TextAnswer isBusy={isBusy} onAnswer={onAnswer} />)}
    </section>
  );
}

/** Whether the text is only the schema, which the form shows better. */
function isJsonOf(text: string, schema: object): boolean {
  return text.startsWith("{") && text === JSON.stringify(schema);
}

function Permission({ status, isBusy, onAnswer }: { status: TaskStatus; isBusy: boolean; onAnswer: (parts: Part[]) => void }) {
  const links = useMemo(() => addressesIn(status).map(safeLink).filter((link) => link !== null), [status]);
  return (
    <>
      <p class="dim">
        {links.length > 0 ? "Open the address, give the permission there, and come back." : "Do what it says, and come back."}{" "}
        Never type a password into the conversation.
      </p>
      <div class="row">
        {links.map((link) => (
          <a key={link.href} class="button" href={link.href} target="_blank" rel="noopener noreferrer nofollow">
            <Icon name="external" /> Open {shortLine(link.host, 60)}
          </a>
        ))}
        <Button kind="primary" busy={isBusy && "Sending…"} onClick={() => onAnswer([{ text: "I have done this." }])}>I have done this: continue</Button>
      </div>
    </>
  );
}

function TextAnswer({ isBusy, onAnswer }: { isBusy: boolean; onAnswer: (parts: Part[]) => void }) {
  const [text, setText] = useState("");
  function send(event: Event) {
    event.preventDefault();
    if (text.trim() && !isBusy) onAnswer([{ text }]);
  }
  return (
    <form class="question-answer" onSubmit={send}>
      <input class="input" aria-label="Your answer" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <Button type="submit" kind="primary" busy={isBusy && "Sending…"}>Answer</Button>
    </form>
  );
}
