// Files and data of a message, within limits.

import { expect, test } from "vitest";
import { decodeBase64, fileName, isPicture, isTooLargePicture, sizeOfBase64 } from "../../content/file_bytes.ts";
import { dataIn, MAX_BYTES, MAX_FILES, partsOf, withFiles } from "./attachments.ts";

const file = (name: string, size: number, type = "") => new File([new Uint8Array(size)], name, { type });

test("a message has its text, its data and its files as parts", async () => {
  const { attachments } = withFiles([], [new File(["hello"], "note.txt", { type: "text/plain" })]);
  expect(await partsOf("look", { a: 1 }, attachments)).toEqual([
    { text: "look" }, { data: { a: 1 }, mediaType: "application/json" }, { raw: "aGVsbG8=", filename: "note.txt", mediaType: "text/plain" },
  ]);
  expect(await partsOf("  ", undefined, [])).toEqual([]);
});

test("files beyond the limits are left out, and the rest is kept", () => {
  const { attachments, problem } = withFiles([], [file("a", 10), file("big", MAX_BYTES), file("b", 10)]);
  expect([attachments.map((each) => each.file.name), problem]).toEqual([["a", "b"], "Not added: big. A message takes 20 files and 16 MB at most."]);
  expect(withFiles([], Array.from({ length: 30 }, () => file("x", 1))).attachments).toHaveLength(MAX_FILES);
});

test("data is JSON or nothing", () => {
  expect([dataIn(null), dataIn("  "), dataIn("null"), dataIn('{"a": 1}')]).toEqual([undefined, undefined, null, { a: 1 }]);
  expect(() => dataIn("{a}")).toThrow(SyntaxError);
});

test("base64 has its size without decoding, and comes back as it was", async () => {
  for (const text of ["", "a", "ab", "abc", "abcd"]) {
    const [part] = await partsOf("", undefined, withFiles([], [new File([text], "x")]).attachments);
    expect([sizeOfBase64(part!.raw!), new TextDecoder().decode(decodeBase64(part!.raw!)?.[0])]).toEqual([text.length, text]);
  }
  expect([decodeBase64("a-_b")?.[0]?.length, decodeBase64("not base64!")]).toEqual([3, null]);
});

test("names of files lead nowhere", () => {
  expect(["../../etc/passwd", "a\\b\\c.txt", ".bashrc", "\u202efdp.exe", "", undefined].map((name) => fileName(name)))
    .toEqual(["passwd", "c.txt", "bashrc", "fdp.exe", "file", "file"]);
  expect(fileName("", "image/png")).toBe("file.png");
});

test("only pictures of a bounded size are shown", () => {
  expect([isPicture("image/PNG; x=1", 10), isPicture("text/html", 10), isPicture("image/png", 9_000_000), isPicture("image/tiff", 10)])
    .toEqual([true, false, false, false]);
  const png = new Uint8Array(30);
  png.set([0x89, 0x50, 0x4e, 0x47], 0);
  png.set([0, 0, 0x80, 0, 0, 0, 0x80, 0], 16);
  expect([isTooLargePicture(png), isTooLargePicture(new Uint8Array(3))]).toEqual([true, false]);
});
