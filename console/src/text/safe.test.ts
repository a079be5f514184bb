import { describe, expect, test } from "vitest";
import { bytesText, durationText, plural, safeLine, safeText, safeUrl, shortLine } from "./safe.ts";

describe("foreign text", () => {
  test("cannot reverse, hide or imitate other text", () => {
    expect(safeText("invoice\u202Efdp.exe")).toBe("invoice⟨U+202E⟩fdp.exe");
    expect(safeText("a\u0000b\u001b[31mc\u009bd\u007f")).toBe("a⟨U+0000⟩b⟨U+001B⟩[31mc⟨U+009B⟩d⟨U+007F⟩");
    expect(safeText("pay\u200bpal \u2066x\u2069 \ufeff")).toBe("pay⟨U+200B⟩pal ⟨U+2066⟩x⟨U+2069⟩ ⟨U+FEFF⟩");
    expect(safeText("a\ud800b\udc00c")).toBe("a⟨U+D800⟩b⟨U+DC00⟩c");
    expect(safeText("tag\u{E0041}")).toBe("tag⟨U+E0041⟩");
  });

  test("keeps tabs, lines, emoji and all scripts", () => {
    const text = "Zeile\n\tönü 日本語 עברית العربية 👩‍👩‍👧‍👦 🇪🇺 क्ष";
    expect(safeText(text)).toBe(text);
    expect(safeText("a\r\nb\rc")).toBe("a\nb⟨U+000D⟩c");
  });

  test("is one line where a name is expected", () => {
    expect(safeLine("  a\n\n b\t c\r\n")).toBe("a b c");
  });

  test("of any length is short, and never cut within a character", () => {
    expect(shortLine("x".repeat(10_000_000), 20)).toBe(`${"x".repeat(19)}…`);
    expect(shortLine("😀".repeat(30), 10)).toBe("😀😀😀😀…");
    expect(shortLine("exactly ten", 11)).toBe("exactly ten");
    expect(shortLine(`${" ".repeat(1000)}a`, 10)).toBe("…");
  });
});

test("only web addresses are links", () => {
  expect(safeUrl("https://a.example/x?y#z")?.href).toBe("https://a.example/x?y#z");
  for (const url of ["javascript:alert(1)", " javascript:alert(1)", "JaVaScRiPt://x%0aalert(1)", "data:text/html,x", "file:///etc/passwd", "//x.example", "/x", "http://", ""]) {
    expect(safeUrl(url)).toBe(null);
  }
});

test("amounts are written as people read them", () => {
  expect([0, 999, 1234, 45_678, 52_428_800].map(bytesText)).toEqual(["0 B", "999 B", "1.2 kB", "46 kB", "52 MB"]);
  expect([0.4, 12.4, 999, 1234, 12_345, 75_000, 3_720_000].map(durationText)).toEqual(["0.4 ms", "12 ms", "999 ms", "1.2 s", "12 s", "1 min 15 s", "1 h 2 min"]);
  expect([plural(1, "task"), plural(12_345, "task")]).toEqual(["1 task", "12,345 tasks"]);
});
