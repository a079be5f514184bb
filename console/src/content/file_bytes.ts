// The bytes of files in messages: their size without decoding them, their decoding in pieces, and which are pictures.
// Pictures are shown from bytes that the page has, through blob: URLs, and only up to a size in bytes and in pixels.

/** Pictures that an <img> may show. SVG is safe there: neither scripts nor anything from elsewhere runs or loads. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml"]);

export const MAX_PICTURE_BYTES = 8_000_000;
const MAX_PIXELS = 40_000_000;

/** Characters of base64 that are decoded at a time: a multiple of four. */
const PIECE = 1 << 20;

/** The number of bytes in base64. */
export function sizeOfBase64(text: string): number {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor((text.length * 3) / 4) - padding);
}

/** The media type without parameters: `Image/PNG; q=1` → `image/png`. */
export function mediaTypeOf(type: string | undefined): string {
  return (type ?? "").split(";")[0]!.trim().toLowerCase();
}

/** Whether a file may be shown as a picture. */
export function isPicture(type: string | undefined, size: number): boolean {
  return PICTURES.has(mediaTypeOf(type)) && size > 0 && size <= MAX_PICTURE_BYTES;
}

/** The bytes of base64, in either alphabet; null if it is none. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer>[] | null {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  try {
    for (let start = 0; start < text.length; start += PIECE) {
      const bytes = atob(text.slice(start, start + PIECE).replaceAll("-", "+").replaceAll("_", "/"));
      const piece = new Uint8Array(bytes.length);
      for (let index = 0; index < bytes.length; index++) piece[index] = bytes.charCodeAt(index);
      pieces.push(piece);
    }
  } catch {
    return null;
  }
  return pieces;
}

/** Bytes as base64. */
export async function encodeBase64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const pieces: string[] = [];
  for (let start = 0; start < bytes.length; start += 0x6000) {
    pieces.push(btoa(String.fromCharCode(...bytes.subarray(start, start + 0x6000))));
  }
  return pieces.join("");
}

/** Whether a picture would take more memory than it may: what its header says about its size in pixels. */
export function isTooLargePicture(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length > 24 && view.getUint32(0) === 0x89504e47) return view.getUint32(16) * view.getUint32(20) > MAX_PIXELS;
  if (bytes.length > 10 && view.getUint32(0) === 0x47494638) return view.getUint16(6, true) * view.getUint16(8, true) > MAX_PIXELS;
  return false;
}

/** A name under which a file may be saved: without folders and odd characters. */
export function fileName(name: string | undefined, type = ""): string {
  const last = (name ?? "").split(/[/\\]/).at(-1) ?? "";
  const clean = last.replace(/[^\p{L}\p{N} ._()-]/gu, "").replace(/^[. ]+/, "").slice(-100).trim();
  return clean || `file${EXTENSIONS[mediaTypeOf(type)] ?? ""}`;
}

const EXTENSIONS: Record<string, string> = {
  "text/plain": ".txt", "text/markdown": ".md", "application/json": ".json", "image/png": ".png", "image/jpeg": ".jpg",
  "image/svg+xml": ".svg", "application/pdf": ".pdf", "text/csv": ".csv",
};

/** Let the user save bytes. Not under their own type: a browser must never show them as a page of this origin. */
export function saveAs(pieces: BlobPart[], name: string): void {
  const url = URL.createObjectURL(new Blob(pieces, { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
