// Copying to the clipboard, with a word when it is done.

import { useState } from "preact/hooks";
import { announce } from "./announce.tsx";
import { Button, IconButton } from "./button.tsx";
import { toastError } from "./toast.tsx";

export interface CopyButtonProps {
  /** The text, or how to get it when the button is pressed. */
  text: string | (() => string | Promise<string>);
  /** What is copied: "Copy id", "Copy as curl". */
  label?: string;
  /** An icon only, with the label as its name. */
  iconOnly?: boolean;
}

/** Copy text to the clipboard. */
export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) throw new Error("The browser allows copying only over HTTPS or on this machine.");
  await navigator.clipboard.writeText(text);
}

export function CopyButton({ text, label = "Copy", iconOnly }: CopyButtonProps) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await copyText(typeof text === "string" ? text : await text());
      announce("Copied");
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch (error) {
      toastError(error, "Could not copy");
    }
  };
  if (iconOnly) return <IconButton icon={isDone ? "check" : "copy"} label={isDone ? "Copied" : label} onClick={copy} small />;
  return <Button kind="quiet" small icon={isDone ? "check" : "copy"} onClick={copy}>{isDone ? "Copied" : label}</Button>;
}
