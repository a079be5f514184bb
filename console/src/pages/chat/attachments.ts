// Files that the user adds to a message: limits, and the parts that they become.

import type { JsonValue, Part } from "../../a2a/types.ts";
import { encodeBase64 } from "../../content/file_bytes.ts";
import { bytesText, shortLine } from "../../text/safe.ts";

/** Bytes of all files of a message. A request may have 24 MB by default, and base64 makes four bytes of three. */
export const MAX_BYTES = 16_000_000;
export const MAX_FILES = 20;

export interface Attachment {
  id: number;
  file: File;
}

let last = 0;

/** The attachments with more files, and why some were left out. */
export function withFiles(before: readonly Attachment[], files: readonly File[]): { attachments: Attachment[]; problem: string } {
  const attachments = [...before];
  const refused: string[] = [];
  let bytes = before.reduce((sum, { file }) => sum + file.size, 0);
  for (const file of files) {
    const isTooMuch = attachments.length >= MAX_FILES || bytes + file.size > MAX_BYTES;
    if (isTooMuch) refused.push(shortLine(file.name, 40));
    else {
      bytes += file.size;
      attachments.push({ id: ++last, file });
    }
  }
  const problem = refused.length > 0
    ? `Not added: ${refused.slice(0, 3).join(", ")}${refused.length > 3 ? " and more" : ""}. A message takes ${MAX_FILES} files and ${bytesText(MAX_BYTES)} at most.`
    : "";
  return { attachments, problem };
}

/** The parts of a message: text first, then data, then files. */
export async function partsOf(text: string, data: JsonValue | undefined, attachments: readonly Attachment[]): Promise<Part[]> {
  const parts: Part[] = [];
  if (text.trim()) parts.push({ text });
  if (data !== undefined) parts.push({ data, mediaType: "application/json" });
  for (const { file } of attachments) {
    parts.push({ raw: await encodeBase64(file), filename: file.name || "file", mediaType: file.type || "application/octet-stream" });
  }
  return parts;
}

/** The data that was typed as JSON: undefined if there is none. Raises SyntaxError. */
export function dataIn(text: string | null): JsonValue | undefined {
  return text?.trim() ? (JSON.parse(text) as JsonValue) : undefined;
}

/** The files of a drop or a paste. */
export function filesIn(transfer: DataTransfer | null): File[] {
  return [...(transfer?.files ?? [])];
}
