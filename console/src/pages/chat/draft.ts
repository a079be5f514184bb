// What the user has typed and added, but not sent yet. Kept in memory only.

import { signal } from "../../signals.ts";
import type { Attachment } from "./attachments.ts";

export class Draft {
  readonly text = signal("");
  /** The data part as text; null if there is none. */
  readonly data = signal<string | null>(null);
  readonly attachments = signal<readonly Attachment[]>([]);
  /** Add files that were dropped somewhere; the composer sets it. */
  addFiles: (files: readonly File[]) => void = () => undefined;

  clear(): void {
    this.text.value = "";
    this.data.value = null;
    this.attachments.value = [];
  }
}
