// The tree in the page: folding with the mouse and with keys, and how little of it is in the page.

import { render } from "preact";
import { afterEach, expect, test } from "vitest";
import { act } from "preact/test-utils";
import { DataTree } from "./data_tree.tsx";
import { DataView } from "./data_view.tsx";
import type { JsonValue } from "../a2a/types.ts";

const box = document.createElement("div");
document.body.append(box);

afterEach(() => render(null, box));

async function show(value: JsonValue) {
  await act(() => render(<DataTree value={value} />, box));
}

const rows = () => [...box.querySelectorAll("[role=treeitem]")].map((row) => row.textContent);

async function press(...keys: string[]) {
  for (const key of keys) {
    await act(() => {
      box.querySelector("[role=tree]")!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    });
  }
}

test("a click folds and unfolds", async () => {
  await show({ a: [1, 2] });
  expect(rows()).toEqual(["▾{1 member}", "▾a: [2 items]", "0: 1", "1: 2"]);
  await act(() => box.querySelectorAll<HTMLElement>("[role=treeitem]")[1]!.click());
  expect(rows()).toEqual(["▾{1 member}", "▸a: [2 items]"]);
  expect(box.querySelectorAll("[role=treeitem]")[1]!.getAttribute("aria-expanded")).toBe("false");
});

test("arrow keys move, open and close, and the active row is named", async () => {
  await show({ a: [1, 2], b: "x" });
  await press("ArrowDown", "ArrowLeft");
  expect(rows()).toEqual(["▾{2 members}", "▸a: [2 items]", 'b: "x"']);
  await press("ArrowRight", "ArrowRight", "ArrowDown");
  const active = box.querySelector("[role=tree]")!.getAttribute("aria-activedescendant")!;
  expect(document.getElementById(active)!.textContent).toBe("1: 2");
  await press("ArrowLeft", "Enter", "Home");
  expect(box.querySelector("[aria-selected=true]")!.textContent).toBe("▾{2 members}");
  expect(rows()).toHaveLength(3);
});

test("a list of 40,000 has a few rows in the page", async () => {
  await show(Array.from({ length: 40_000 }, (_, index) => index));
  expect(rows().length).toBeLessThan(60);
  await press("End");
  expect(box.querySelector("[aria-selected=true]")?.textContent ?? rows().length).toBeTruthy();
});

test("names and texts are bounded and on one line", async () => {
  await show({ ["n".repeat(10_000)]: `a\nb\u202e${"c".repeat(10_000)}` });
  expect(rows()[1]!.length).toBeLessThan(700);
  expect(rows()[1]).toContain("⟨U+202E⟩");
});

test("a list of flat objects is a table at first, and can be a tree and text", async () => {
  await act(() => render(<DataView value={[{ a: 2, b: "x" }, { a: 1, b: "y" }]} />, box));
  const cells = () => [...box.querySelectorAll("td")].map((cell) => cell.textContent);
  expect(cells()).toEqual(["2", "x", "1", "y"]);
  await act(() => box.querySelector<HTMLElement>("th button")!.click());
  expect(cells()).toEqual(["1", "y", "2", "x"]);
  const [, tree, text] = box.querySelectorAll<HTMLElement>(".switch button");
  await act(() => tree!.click());
  expect(rows()).toHaveLength(7);
  await act(() => text!.click());
  expect(box.querySelector("pre")!.textContent).toBe(JSON.stringify([{ a: 2, b: "x" }, { a: 1, b: "y" }], null, 2));
});
