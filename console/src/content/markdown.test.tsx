// What hostile Markdown becomes in the page: text, and links that lead only where they say.

import { render } from "preact";
import { afterEach, describe, expect, test } from "vitest";
import { decodeEntities, safeLink } from "./links.ts";
import { Markdown } from "./markdown.tsx";

const box = document.createElement("div");

afterEach(() => render(null, box));

function shown(text: string): HTMLElement {
  render(<Markdown text={text} />, box);
  return box;
}

const ALLOWED = new Set([
  "DIV", "P", "H3", "H4", "H5", "H6", "UL", "OL", "LI", "BLOCKQUOTE", "HR", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "PRE", "CODE",
  "STRONG", "EM", "DEL", "BR", "A", "SPAN", "INPUT", "FIGURE", "FIGCAPTION", "BUTTON", "svg", "path",
]);

const ATTACKS = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror='window.hacked = 1'>",
  "<svg onload=alert(1)><script>alert(1)</script></svg>",
  "<iframe src='javascript:alert(1)'></iframe>",
  "text <b onmouseover=alert(1)>bold</b> text",
  "<style>* { display: none }</style>",
  "<a href='javascript:alert(1)'>x</a>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\nscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](javascript&colon;alert(1))",
  "[x](javascript&#58;alert(1))",
  "[x]( javascript:alert(1))",
  "[x](\u0001javascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:msgbox(1))",
  "[x](file:///etc/passwd)",
  "[x](blob:https://a.example/1)",
  "[x](//evil.example)",
  "[x](/console/api/session/logout)",
  "[x](https://good.example@evil.example)",
  "<javascript:alert(1)>",
  "![x](javascript:alert(1))",
  "![x](https://evil.example/pixel.png)",
  "![x](data:image/svg+xml;base64,PHN2Zz4=)",
  "[![x](https://evil.example/a.png)](javascript:alert(1))",
  "```html\n<script>alert(1)</script>\n```",
  "`<script>alert(1)</script>`",
  "| <img src=x onerror=alert(1)> |\n|---|\n| <script>alert(1)</script> |",
  "- <script>alert(1)</script>\n- [ ] <input autofocus onfocus=alert(1)>",
  "> <form action=https://evil.example><input name=token></form>",
  "# <script>alert(1)</script>",
  "[1]: javascript:alert(1)\n\n[x][1]",
  "<details open ontoggle=alert(1)>",
  "<!--><script>alert(1)</script>-->",
  "&lt;script&gt;alert(1)&lt;/script&gt;",
  "&#x202e;evil",
  "a\u202eb\u2066c\u0007d",
  "<a href=\"https://evil.example\" style=\"position:fixed;inset:0\">x</a>",
];

describe("Markdown of a hostile agent", () => {
  for (const attack of ATTACKS) {
    test(`is only text: ${JSON.stringify(attack)}`, () => {
      const all = [...shown(attack).querySelectorAll("*")];
      for (const element of all) {
        expect(ALLOWED).toContain(element.tagName);
        for (const { name, value } of element.attributes) {
          expect(name).not.toMatch(/^on|^style$|^src$|^action$|^srcdoc$/);
          if (name === "href") expect(value).toMatch(/^(https?:\/\/|mailto:)/);
        }
      }
      for (const input of box.querySelectorAll("input")) expect([input.type, input.disabled]).toEqual(["checkbox", true]);
      expect(box.textContent).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u0007]/);
      expect((globalThis as { hacked?: number }).hacked).toBeUndefined();
    });
  }

  test("shows HTML as the text that it is", () => {
    expect(shown("a <b>bold</b> <script>x</script>").textContent).toBe("a <b>bold</b> <script>x</script>");
  });

  test("loads no pictures: they become links", () => {
    const link = shown("![A cat](https://pictures.example/cat.png)").querySelector("a")!;
    expect([link.href, link.rel, link.target]).toEqual(["https://pictures.example/cat.png", "noopener noreferrer nofollow", "_blank"]);
    expect(box.textContent).toBe("Picture: A cat (pictures.example)");
  });

  test("a link whose text claims another host shows its host", () => {
    expect(shown("[https://bank.example](https://evil.example/x)").textContent).toBe("https://bank.example (evil.example)");
    expect(shown("[раypal](https://xn--ypal-43d9g.example)").textContent).toContain("(xn--ypal-43d9g.example)");
  });

  test("an address that is its own text has no host beside it", () => {
    expect(shown("see https://a.example/b").textContent).toBe("see https://a.example/b");
    expect(shown("<me@a.example>").textContent).toBe("me@a.example");
  });
});

describe("Markdown of a friendly agent", () => {
  test("has headings, lists, tables, quotes and emphasis", () => {
    shown("# One\n\n1. *a*\n2. **b**\n\n> ~~c~~\n\n|x|y|\n|-|-:|\n|1|2|\n\n---\n\n- [x] done\n");
    const has = (selector: string) => box.querySelectorAll(selector).length;
    expect([has("h3"), has("ol li"), has("em"), has("strong"), has("blockquote del"), has("td"), has("th[scope=col]"), has("hr"), has("li input:checked")])
      .toEqual([1, 2, 1, 1, 1, 2, 2, 1, 1]);
    expect(box.querySelector("td.md-right")!.textContent).toBe("2");
  });

  test("keeps single line breaks, and replaces character references", () => {
    expect(shown("a\nb &amp; c &#8364; &unknown;").innerHTML).toContain("a<br>b &amp; c € &amp;unknown;");
  });

  test("renders only the end again when it grows", () => {
    shown("One.\n\nTwo.\n\nThr");
    const first = box.querySelector("p")!;
    first.setAttribute("data-kept", "");
    shown("One.\n\nTwo.\n\nThree **bold** now.\n\nFour.");
    expect([...box.querySelectorAll("p")].map((each) => each.textContent)).toEqual(["One.", "Two.", "Three bold now.", "Four."]);
    expect(box.querySelector("[data-kept]")).toBe(first);
  });

  test("begins anew when the text is replaced", () => {
    shown("One.\n\nTwo.\n");
    expect(shown("Other.\n").textContent).toBe("Other.");
  });
});

test("links are http, https and mailto only, without a password", () => {
  expect(safeLink("https://a.example/b")).toEqual({ href: "https://a.example/b", host: "a.example" });
  expect(safeLink("mailto:a@b.example")?.host).toBe("e-mail");
  for (const address of ["javascript:1", "ftp://a", "/a", "", "https://u:p@a.example", `https://a.example/${"a".repeat(5000)}`]) {
    expect(safeLink(address)).toBeNull();
  }
});

test("character references cannot bring in what is not shown", () => {
  expect(decodeEntities("&#x202e;&#0;&#x110000;&lt;")).toBe("⟨U+202E⟩⟨U+0000⟩&#x110000;<");
});
