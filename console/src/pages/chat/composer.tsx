// Where the user writes: Enter sends, Shift+Enter begins a line; files come by button, paste or drop, data as JSON.
// What is typed stays with the conversation, so that it is still there after a look at another page.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import type { Part } from "../../a2a/types.ts";
import { isPicture } from "../../content/file_bytes.ts";
import { bytesText, shortLine } from "../../text/safe.ts";
import { announce, Button, IconButton, toast } from "../../ui/index.ts";
import { dataIn, filesIn, partsOf, withFiles, type Attachment } from "./attachments.ts";
import type { Draft } from "./draft.ts";

export interface ComposerProps {
  draft: Draft;
  /** The name of the agent. */
  agent: string;
  /** What the message answers, if it is an answer; with a way not to. */
  answers: { question: string; onRelease: () => void } | null;
  /** The skill that the message is for, if the user has chosen one. */
  skill: { name: string; onRelease: () => void } | null;
  /** Stop what the agent does now. */
  onCancel: (() => void) | null;
  onSend: (parts: Part[]) => void;
  input: RefObject<HTMLTextAreaElement | null>;
}

export function Composer({ draft, agent, answers, skill, onCancel, onSend, input }: ComposerProps) {
  const files = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const isEmpty = !draft.text.value.trim() && !draft.data.value?.trim() && draft.attachments.value.length === 0;

  function addFiles(added: readonly File[]) {
    if (added.length === 0) return;
    const next = withFiles(draft.attachments.value, added);
    draft.attachments.value = next.attachments;
    if (next.problem) toast(next.problem, true);
    else announce(`${added.length} ${added.length === 1 ? "file" : "files"} added`);
  }
  draft.addFiles = addFiles;

  async function send() {
    if (isEmpty || isSending) return;
    setSending(true);
    try {
      const parts = await partsOf(draft.text.value, dataIn(draft.data.value), draft.attachments.value);
      setProblem("");
      draft.clear();
      onSend(parts);
    } catch (error) {
      setProblem(error instanceof SyntaxError ? `The data is not valid JSON: ${error.message}` : "A file could not be read.");
    } finally {
      setSending(false);
      input.current?.focus();
    }
  }

  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  }

  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      {answers && <Chip text={`Answers: ${shortLine(answers.question, 70)}`} label="Begin a new task instead" onRemove={answers.onRelease} />}
      {skill && <Chip text={`Skill: ${shortLine(skill.name, 50)}`} label="For any skill" onRemove={skill.onRelease} />}
      <Attachments attachments={draft.attachments.value} onRemove={(id) => (draft.attachments.value = draft.attachments.value.filter((each) => each.id !== id))} />
      {draft.data.value !== null && (
        <div class="composer-data">
          <label class="field-label" for="composer-data">Data part, as JSON</label>
          <IconButton icon="close" label="Remove the data part" small onClick={() => (draft.data.value = null)} />
          <textarea
            id="composer-data" class="input code" rows={4} spellcheck={false} value={draft.data.value} placeholder='{"city": "Paris"}'
            aria-invalid={problem ? true : undefined} aria-describedby={problem ? "composer-problem" : undefined}
            onInput={(event) => (draft.data.value = event.currentTarget.value)}
          />
        </div>
      )}
      {problem && <p class="field-error" id="composer-problem" role="alert">{problem}</p>}
      <div class="composer-line">
        <IconButton icon="attach" label="Add files" onClick={() => files.current?.click()} />
        <input
          ref={files} type="file" multiple class="visually-hidden" tabIndex={-1} aria-hidden="true"
          onChange={(event) => { addFiles([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }}
        />
        <button
          type="button" class="button button-quiet button-icon" aria-label="Add a data part" title="Add a data part"
          aria-pressed={draft.data.value !== null} onClick={() => (draft.data.value = draft.data.value === null ? "" : null)}
        >
          <span aria-hidden="true" class="composer-braces">{"{ }"}</span>
        </button>
        <textarea
          ref={input} class="composer-text" rows={1} value={draft.text.value} placeholder={answers ? "Your answer" : `Message ${shortLine(agent, 40)}`}
          aria-label={answers ? "Your answer" : `Message to ${shortLine(agent, 60)}`} aria-describedby="composer-hint" enterkeyhint="send"
          onInput={(event) => (draft.text.value = event.currentTarget.value)} onKeyDown={onKeyDown}
          onPaste={(event) => {
            const pasted = filesIn(event.clipboardData);
            if (pasted.length > 0) event.preventDefault();
            addFiles(pasted);
          }}
        />
        {onCancel && <Button icon="stop" onClick={onCancel}>Cancel</Button>}
        <Button type="submit" kind="primary" icon="send" disabled={isEmpty} busy={isSending && "Sending…"}>Send</Button>
      </div>
      <p class="visually-hidden" id="composer-hint">Enter sends. Shift and Enter begin a new line. Files can be pasted.</p>
    </form>
  );
}

function Chip({ text, label, onRemove }: { text: string; label: string; onRemove: () => void }) {
  return (
    <p class="composer-chip">
      <span class="cut"><bdi>{text}</bdi></span>
      <IconButton icon="close" label={label} small onClick={onRemove} />
    </p>
  );
}

function Attachments({ attachments, onRemove }: { attachments: readonly Attachment[]; onRemove: (id: number) => void }) {
  if (attachments.length === 0) return null;
  return (
    <ul class="plain composer-files" aria-label="Files of this message">
      {attachments.map((attachment) => <FileChip key={attachment.id} attachment={attachment} onRemove={onRemove} />)}
    </ul>
  );
}

function FileChip({ attachment: { id, file }, onRemove }: { attachment: Attachment; onRemove: (id: number) => void }) {
  const name = shortLine(file.name || "file", 40);
  const url = useMemo(() => (isPicture(file.type, file.size) ? URL.createObjectURL(file) : ""), [file]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return (
    <li class="composer-file">
      {url && <img src={url} alt="" />}
      <span class="cut"><bdi>{name}</bdi></span>
      <span class="dim">{bytesText(file.size)}</span>
      <IconButton icon="close" label={`Remove ${name}`} small onClick={() => onRemove(id)} />
    </li>
  );
}
