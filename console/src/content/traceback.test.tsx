// Why an agent raised: its traceback while the server has it, and afterwards where it is.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, test, vi } from "vitest";
import { Traceback } from "./traceback.tsx";

const box = document.createElement("div");
document.body.append(box);
afterEach(() => {
  render(null, box);
  vi.unstubAllGlobals();
});

async function show(traceback: string | null, reason: string): Promise<string> {
  vi.stubGlobal("fetch", async () => Response.json({ traceback }));
  await act(() => render(<Traceback agent="a" task="t" reason={reason} />, box));
  await act(() => new Promise((resolve) => setTimeout(resolve)));
  return box.textContent ?? "";
}

test("the last line of a traceback is shown, and the rest of it on demand", async () => {
  expect(await show("Traceback\n  in obey\nValueError: closed\n", "The agent failed. Reference: 01a1")).toMatch(/^ValueError: closed/);
  expect(box.querySelector("details")!.open).toBe(false);
});

test("a failure whose traceback is gone says where it is", async () => {
  expect(await show(null, "The agent failed. Reference: 01a1")).toBe("The log of the server has the traceback under this reference.");
});

test("a reason that an agent gave itself has no traceback anywhere", async () => {
  expect(await show(null, "The vault is empty.")).toBe("");
});
