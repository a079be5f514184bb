// Dialogs over the browser's own <dialog>: the focus stays inside, Escape closes, and the focus goes back afterwards.
// `confirm` asks before what cannot be undone.

import { signal } from "../signals.ts";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useId, useRef } from "preact/hooks";
import { Button, IconButton } from "./button.tsx";

export interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Buttons below the content. */
  footer?: ComponentChildren;
  wide?: boolean;
}

/** For the `ref` of a dialog that is modal as long as it is rendered. Opens it before the next key, and gives the focus back. */
export function useModal() {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const shown = element.current!;
    shown.showModal();
    return () => {
      shown.close(); // what is behind an open one cannot have the focus
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return element;
}

/** A dialog, open as long as it is rendered: `{isOpen.value && <Dialog …>}`. */
export function Dialog({ title, onClose, children, footer, wide }: DialogProps) {
  const element = useModal();
  const heading = useId();
  return (
    <dialog
      ref={element}
      class={wide ? "dialog dialog-wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => event.target === element.current && onClose()}
    >
      <div class="dialog-box">
        <header class="dialog-head">
          <h2 id={heading}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
        {footer && <footer class="dialog-foot">{footer}</footer>}
      </div>
    </dialog>
  );
}

export interface Question {
  title: string;
  /** What will happen, in a sentence or two. */
  text: ComponentChildren;
  /** The label of the button: "Delete tenant". */
  action: string;
  isDangerous?: boolean;
}

const asked = signal<{ question: Question; answer: (yes: boolean) => void } | null>(null);

/** Ask the user; true if they agree. `if (await confirm({...})) …` */
export function confirm(question: Question): Promise<boolean> {
  asked.peek()?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      question,
      answer: (yes) => {
        asked.value = null;
        resolve(yes);
      },
    };
  });
}

/** What `confirm` asks; the shell shows it once. */
export function ConfirmOutlet() {
  const now = asked.value;
  return now && <ConfirmDialog key={now.question.title} question={now.question} answer={now.answer} />;
}

function ConfirmDialog({ question, answer }: { question: Question; answer: (yes: boolean) => void }) {
  return (
    <Dialog
      title={question.title}
      onClose={() => answer(false)}
      footer={
        <>
          <Button onClick={() => answer(false)}>Back</Button>
          <Button kind={question.isDangerous ? "danger" : "primary"} onClick={() => answer(true)}>{question.action}</Button>
        </>
      }
    >
      <p>{question.text}</p>
    </Dialog>
  );
}
