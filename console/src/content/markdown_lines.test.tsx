// What Markdown becomes, as HTML that is short to read: a table of texts and what is shown.

import { render } from "preact";
import { describe, expect, test } from "vitest";
import { Markdown } from "./markdown.tsx";

/** The elements of a text without attributes, but for where lists start, and what code and links are. */
function shown(text: string): string {
  const box = document.createElement("div");
  render(<Markdown text={text} />, box);
  const all = [...box.firstElementChild!.childNodes].map(brief).join("");
  render(null, box);
  return all;
}

function brief(node: Node): string {
  if (!(node instanceof Element)) return node.textContent ?? "";
  const inside = [...node.childNodes].map(brief).join("");
  const name = node.tagName.toLowerCase();
  if (name === "figure") return `<pre ${node.querySelector("figcaption span")!.textContent}>${node.querySelector("code")!.textContent}</pre>`;
  if (name === "a") return `<a ${node.getAttribute("href")}>${inside}</a>`;
  if (name === "ol") return `<ol ${node.getAttribute("start")}>${inside}</ol>`;
  if (name === "input") return (node as HTMLInputElement).checked ? "☑" : "☐";
  if (name === "span" || node.matches("div, table, thead, tbody")) return inside;
  if (name === "br" || name === "hr") return `<${name}>`;
  return `<${name}>${inside}</${name}>`;
}

const CASES: Record<string, [string, string][]> = {
  paragraphs: [
    ["a\nb\n\nc", "<p>a<br>b</p><p>c</p>"],
    ["a  \n  b\\\nc", "<p>a<br>b<br>c</p>"],
    ["  a", "<p>a</p>"],
    ["a &amp; b &#8364; \\*c\\* \\a", "<p>a & b € *c* \\a</p>"],
    ["1986. A good year", "<ol 1986><li>A good year</li></ol>"],
    ["In\n1986. A good year\n- but", "<p>In<br>1986. A good year</p><ul><li>but</li></ul>"],
    ["a <b>c</b>", "<p>a <b>c</b></p>"],
  ],
  emphasis: [
    ["*a* **b** ***c*** ~~d~~ _e_ __f__", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del> <em>e</em> <strong>f</strong></p>"],
    ["**a *b* c** *a **b** c*", "<p><strong>a <em>b</em> c</strong> <em>a <strong>b</strong> c</em></p>"],
    ["snake_case_name 2*3*4 a * b * c", "<p>snake_case_name 2<em>3</em>4 a * b * c</p>"],
    ["**a", "<p>**a</p>"],
    ["*a **b*", "<p>*a *<em>b</em></p>"],
    ["**a:**b **a**.", "<p>**a:**b <strong>a</strong>.</p>"],
    ["**Bold:** text", "<p><strong>Bold:</strong> text</p>"],
    ["`*a*` ``b`c`` `d", "<p><code>*a*</code> <code>b`c</code> `d</p>"],
  ],
  links: [
    ["[a](https://x.example \"t\")", "<p><a https://x.example/>a</a> (x.example)</p>"],
    ["[**a** `b`](<https://x.example/a b>)", "<p><a https://x.example/a%20b><strong>a</strong> <code>b</code></a> (x.example)</p>"],
    ["[a](https://x.example/w_(b))", "<p><a https://x.example/w_(b)>a</a> (x.example)</p>"],
    ["see https://x.example/a_b_c, or (https://x.example/b).", "<p>see <a https://x.example/a_b_c>https://x.example/a_b_c</a>, or (<a https://x.example/b>https://x.example/b</a>).</p>"],
    ["**https://x.example**", "<p><strong><a https://x.example/>https://x.example</a></strong></p>"],
    ["[a] [b](c d) [1][2] array[0](x", "<p>[a] [b](c d) [1][2] array[0](x</p>"],
    ["*a [b*](https://x.example) c", "<p>*a <a https://x.example/>b*</a> (x.example) c</p>"],
    ["[![p](https://x.example/p.png)](https://y.example)", "<p><a https://y.example/><a https://x.example/p.png>Picture: p</a> (x.example)</a> (y.example)</p>"],
    ["xhttps://x.example <https://y.example> <me@z.example>", "<p>xhttps://x.example <a https://y.example/>https://y.example</a> <a mailto:me@z.example>me@z.example</a></p>"],
    ["[1]: https://x.example", "<p>[1]: <a https://x.example/>https://x.example</a></p>"],
  ],
  headings: [
    ["# a\n## b ##\n### c#\n####### d", "<h3>a</h3><h4>b</h4><h5>c#</h5><p>####### d</p>"],
    ["a\n===\nb\n---\n\n---\n#a", "<h3>a</h3><h4>b</h4><hr><p>#a</p>"],
    ["* * *\n_ _ _\n***", "<hr><hr><hr>"],
  ],
  lists: [
    ["- a\n- b\n  c\n- d", "<ul><li>a</li><li>b<br>c</li><li>d</li></ul>"],
    ["- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
    ["- a\n  - b\n    - c\n- d", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>"],
    ["1. a\n   - b\n2. c", "<ol 1><li>a<ul><li>b</li></ul></li><li>c</li></ol>"],
    ["3) a\n4) b\n- c", "<ol 3><li>a</li><li>b</li></ol><ul><li>c</li></ul>"],
    ["- a\n\n  b\n\nc", "<ul><li><p>a</p><p>b</p></li></ul><p>c</p>"],
    ["- a\nlazy\n\nb", "<ul><li>a<br>lazy</li></ul><p>b</p>"],
    ["- [x] a\n- [ ] b", "<ul><li>☑a</li><li>☐b</li></ul>"],
    ["1. a\n\n   ```py\n   x\n\n   y\n   ```\n\n2. b", "<ol 1><li><p>a</p><pre py>x\n\ny</pre></li><li><p>b</p></li></ol>"],
    ["- a\n# b", "<ul><li>a</li></ul><h3>b</h3>"],
    ["-\n- a", "<ul><li></li><li>a</li></ul>"],
    ["10. a\n    b\n11. c", "<ol 10><li>a<br>b</li><li>c</li></ol>"],
  ],
  quotes: [
    ["> a\n> b\nc\n\nd", "<blockquote><p>a<br>b<br>c</p></blockquote><p>d</p>"],
    ["> - a\n> - b\n>\n> > c", "<blockquote><ul><li>a</li><li>b</li></ul><blockquote><p>c</p></blockquote></blockquote>"],
    ["> ```js\n> x\n> ```", "<blockquote><pre js>x</pre></blockquote>"],
  ],
  code: [
    ["```py\na\n\n```\nb", "<pre py>a\n</pre><p>b</p>"],
    ["~~~\n```\n~~~", "<pre code>```</pre>"],
    ["a\n\n    b\n\n    c\nd", "<p>a</p><pre code>b\n\nc</pre><p>d</p>"],
    ["a\n    b", "<p>a<br>b</p>"],
    ["  ```\n  a\n   b\n  ```", "<pre code>a\n b</pre>"],
    ["``` a`b", "<p>``` a`b</p>"],
  ],
  tables: [
    ["|a|b|\n|-|:-:|\n|1|2|\n|`x`\\|y|\n\nc", "<tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr><tr><td><code>x</code>|y</td></tr><p>c</p>"],
    ["text\na | b\n--- | ---\n1 | 2 | 3", "<p>text</p><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr>"],
    ["a | b\n---\nc", "<h4>a | b</h4><p>c</p>"],
    ["| a |", "<p>| a |</p>"],
  ],
};

for (const [name, cases] of Object.entries(CASES)) {
  describe(name, () => {
    for (const [text, expected] of cases) test(JSON.stringify(text), () => expect(shown(text)).toBe(expected));
  });
}

test.each([`a|b\n-${" ".repeat(23_000)}x\n`, `a|${"a".repeat(23_000)}\\\n-|-\n`])("long lines that look like tables take little time", (text) => {
  expect(shown(text.repeat(4))).toContain("a");
});
