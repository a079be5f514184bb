// What an agent wants to know before it goes on, answered in place: a form, a text, or a permission from elsewhere.
// It only asks; what becomes of the answer is for its user.

import "../styles/content.css";
import { useMemo, useState } from "preact/hooks";
import type { Artifact, JsonObject, Part, TaskStatus } from "../a2a/types.ts";
import { SchemeForm as CredentialForm } from "../login/scheme_form.tsx";
import { shortLine } from "../text/safe.ts";
import { Button, Icon } from "../ui/index.ts";
import { safeLink } from "./links.ts";
import { Markdown } from "./markdown.tsx";
import { Parts } from "./parts.tsx";
import { addressesIn, AUTHORIZATION, partsForPeople, questionOf, schemeAskedFor } from "./questions.ts";
import { formIn } from "./schema_fields.ts";
import { SchemaForm } from "./schema_form.tsx";

export interface QuestionProps {
  status: TaskStatus;
  artifacts: readonly Artifact[];
  /** The agent's id, for files. */
  agent?: string | undefined;
  /** Text is answered here; otherwise somewhere else on the page, as `elsewhere` says. */
  elsewhere?: string;
  /** With metadata, they have a credential, which must not be kept. */
  onAnswer: (parts: Part[], metadata?: JsonObject) => void;
}

/** The question of a task that waits. */
export function Question({ status, artifacts, agent, elsewhere, onAnswer }: QuestionProps) {
  const parts = partsForPeople(status.message);
  const schema = useMemo(() => formIn(parts), [status]);
  // 0.1 has no state of its own for it.
  const isAuth = status.state === "TASK_STATE_AUTH_REQUIRED" || schemeAskedFor(status) !== "";
  const title = isAuth ? "The agent needs a permission" : "The agent asks";
  const text = useMemo(() => questionOf(status, artifacts), [status, artifacts]);
  const rest = parts.filter((part) => part.text === undefined && (schema === null || part.data !== schema));
  return (
    <section class="question" aria-label={title}>
      <p class="question-head"><Icon name={isAuth ? "lock" : "help"} /> {title}</p>
      {!(schema && isJsonOf(text, schema)) && <Markdown text={text} />}
      {rest.length > 0 && <Parts parts={rest} agent={agent} />}
      {isAuth && <Permission status={status} onAnswer={onAnswer} />}
      {!isAuth && schema && (
        <SchemaForm schema={schema} onSubmit={(answer) => onAnswer([{ data: answer, mediaType: "application/json" }])} />
      )}
      {!isAuth && !schema && (elsewhere ? <p class="dim">{elsewhere}</p> : <TextAnswer onAnswer={onAnswer} />)}
    </section>
  );
}

/** Whether the text is only the schema, which the form shows better. */
function isJsonOf(text: string, schema: object): boolean {
  return text.startsWith("{") && text === JSON.stringify(schema);
}

function Permission({ status, onAnswer }: Pick<QuestionProps, "status" | "onAnswer">) {
  const scheme = schemeAskedFor(status);
  const links = useMemo(() => addressesIn(status).map(safeLink).filter((link) => link !== null), [status]);
  return (
    <>
      <p class="dim">
        {scheme ? "The credential goes to the agent once, and is not kept here."
          : links.length > 0 ? "Open the address, give the permission there, and come back." : "Do what it says, and come back."}{" "}
        Never type a password into the conversation.
      </p>
      <div class="row">
        {links.map((link) => (
          <a key={link.href} class="button" href={link.href} target="_blank" rel="noopener noreferrer nofollow">
            <Icon name="external" /> Open {shortLine(link.host, 60)}
          </a>
        ))}
        {!scheme && <Button kind="primary" onClick={() => onAnswer([{ text: "I have done this." }])}>I have done this: continue</Button>}
      </div>
      {scheme && <Credential scheme={scheme} onAnswer={onAnswer} />}
    </>
  );
}

/** Asks for a credential, and answers with it as src/parley/client/reply.py does. */
function Credential({ scheme, onAnswer }: { scheme: string } & Pick<QuestionProps, "onAnswer">) {
  const field = { name: "credential", label: `Credential (${shortLine(scheme, 40)})`, is_secret: true, is_required: true };
  return (
    <CredentialForm
      scheme={{ fields: [field] }} action="Send"
      onSubmit={async ({ credential }) => onAnswer([{ text: "Authorized." }], { [AUTHORIZATION]: { credential: credential!, scheme } })}
    />
  );
}

function TextAnswer({ onAnswer }: Pick<QuestionProps, "onAnswer">) {
  const [text, setText] = useState("");
  function send(event: Event) {
    event.preventDefault();
    if (text.trim()) onAnswer([{ text }]);
  }
  return (
    <form class="question-answer" onSubmit={send}>
      <input class="input" aria-label="Your answer" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <Button type="submit" kind="primary">Answer</Button>
    </form>
  );
}
