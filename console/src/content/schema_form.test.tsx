// Forms of agents: their fields, the values that people enter, what is wrong with them, and the page around them.

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { JsonObject, JsonValue } from "../a2a/types.ts";
import { isQuick, problemsOf } from "./schema_check.ts";
import { fieldsOf, formIn, MAX_CHOICES, valueOf, type Entry } from "./schema_fields.ts";
import { FormState } from "./schema_form_state.ts";
import { SchemaForm } from "./schema_form.tsx";
import { cpuTime } from "../testing/cpu_time.ts";

const LOAN: JsonObject = {
  type: "object",
  properties: {
    title: { type: "string", title: "Title of the book", minLength: 2 },
    weeks: { type: "integer", minimum: 1, maximum: 4, default: 2 },
    color: { $ref: "#/$defs/Color" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], description: "Anything else" },
    gift: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    sizes: { type: "array", items: { enum: ["S", "M", "L"] } },
    address: { type: "object", properties: { city: { type: "string" }, zip: { type: "string", pattern: "^[0-9]{5}$" } }, required: ["city"] },
    extra: { type: "object" },
  },
  required: ["title", "color"],
  $defs: { Color: { title: "Color", enum: ["red", "green"] } },
};

function stateWith(entries: Record<string, Entry>, schema = LOAN): FormState {
  const state = new FormState(schema);
  for (const field of state.leaves) {
    const entry = entries[field.path.join(".")];
    if (entry !== undefined) state.entry(field).value = entry;
  }
  return state;
}

const problemsIn = (state: FormState) =>
  Object.fromEntries(state.invalid().map((field) => [field.path.join("."), state.problemOf(field).value]));

describe("the fields of a schema", () => {
  test("have a kind, a title and whether they are required", () => {
    expect(fieldsOf(LOAN).map((field) => [field.name, field.kind, field.title, field.isRequired])).toEqual([
      ["title", "text", "Title of the book", true], ["weeks", "integer", "weeks", false], ["color", "choice", "color", true],
      ["note", "text", "Anything else", false], ["gift", "boolean", "gift", false], ["tags", "lines", "tags", false],
      ["sizes", "choices", "sizes", false], ["address", "group", "address", false], ["extra", "json", "extra", false],
    ]);
  });

  test("are found in a question, by the media type or by the shape of the data", () => {
    expect(formIn([{ text: "Which?" }, { data: LOAN }])).toBe(LOAN);
    const untyped = { properties: { a: {} } };
    expect(formIn([{ data: untyped, mediaType: "application/schema+json" }])).toBe(untyped);
    expect(formIn([{ data: untyped }, { data: { type: "object" } }, { data: [1] }, { text: "{}" }])).toBeNull();
  });

  test("of a schema that is wrong in any way are those that can be read", () => {
    const circular: JsonObject = { type: "object", properties: { a: { $ref: "#/properties/a" }, b: 3, c: { type: ["null", "number"] } } };
    expect(fieldsOf(circular).map((field) => field.kind)).toEqual(["text", "text", "number"]);
    expect(fieldsOf({ properties: [1] as unknown as JsonObject })).toEqual([]);
    expect(fieldsOf({ $ref: "#/__proto__/x" })).toEqual([]);
  });
});

describe("the answer to a form", () => {
  test("has the values that were entered, defaults included, and nothing that is empty", () => {
    const state = stateWith({ title: " Ulysses ", color: "1", gift: "true", tags: "a\n\n b ", sizes: [0, 2], "address.city": "Cork" });
    expect(state.check()).toEqual({
      title: "Ulysses", weeks: 2, color: "green", gift: true, tags: ["a", "b"], sizes: ["S", "L"], address: { city: "Cork" },
    });
  });

  test("is none while a field is wrong, and each says what", () => {
    const state = stateWith({ title: "U", weeks: "9", "address.zip": "12", extra: "{" });
    expect(state.check()).toBeNull();
    expect(problemsIn(state)).toMatchObject({
      title: "Must have at least 2 characters.", weeks: "Must be at most 4.", color: "This field is required.",
      "address.city": "This field is required.", "address.zip": "Must match the pattern ^[0-9]{5}$.",
    });
    expect(problemsIn(state)["extra"]).toMatch(/^This is not valid JSON/);
  });

  test("needs nothing of a group that is optional and empty", () => {
    expect(stateWith({ title: "Ulysses", color: "0" }).check()).toEqual({ title: "Ulysses", weeks: 2, color: "red" });
  });

  test("has no numbers that JSON does not have", () => {
    const [field] = fieldsOf({ properties: { n: { type: "number" } } });
    expect([valueOf(field!, "1e3"), valueOf(field!, "-.5"), valueOf(field!, "")]).toEqual([1000, -0.5, undefined]);
    for (const text of ["0x10", "Infinity", "NaN", "1,5", "1 2"]) expect(() => valueOf(field!, text)).toThrow("Enter a number.");
  });

  test("keeps members named like those of objects", () => {
    const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}}}') as JsonObject;
    const answer = stateWith({ __proto__: "x", ["constructor"]: "y" } as Record<string, Entry>, schema);
    for (const field of answer.leaves) answer.entry(field).value = "v";
    expect(JSON.stringify(answer.check())).toBe('{"__proto__":"v","constructor":"v"}');
  });
});

describe("the rules of a schema", () => {
  const reasons = (value: JsonValue, schema: JsonObject) => problemsOf(value, schema).map(({ path, reason }) => [path.join("."), reason]);

  test("are checked in the words of the server", () => {
    expect(reasons({ a: "x", c: 1 }, { type: "object", properties: { a: { type: "integer" } }, required: ["b"], additionalProperties: false }))
      .toEqual([["b", "is missing"], ["a", "must be a whole number"], ["c", "is unknown"]]);
    expect(reasons("2026-02-30", { type: "string", format: "date" })).toEqual([["", "must be a date as YYYY-MM-DD"]]);
    expect(reasons([1, 1], { type: "array", uniqueItems: true, maxItems: 1 })).toEqual([["", "must have at most 1 items"], ["", "must not have the same item twice"]]);
    expect(reasons(0.3, { type: "number", multipleOf: 0.1 })).toEqual([]);
    expect(reasons("c", { enum: ["a", "b"] })).toEqual([["", "must be one of: a, b"]]);
  });

  test("of alternatives hold if one of them does", () => {
    const optional = { anyOf: [{ type: "integer", minimum: 3 }, { type: "null" }] };
    expect([reasons(null, optional), reasons(5, optional), reasons(1, optional)]).toEqual([[], [], [["", "must be at least 3"]]]);
  });

  test("that are circular end", () => {
    const circular: JsonObject = { $ref: "#/$defs/n", $defs: { n: { type: "object", properties: { n: { $ref: "#/$defs/n" } } } } };
    let deep: JsonObject = {};
    for (let depth = 0; depth < 500; depth++) deep = { n: deep };
    expect(reasons(deep, circular)).toEqual([]);
    const wide: JsonObject = { $defs: { a: { anyOf: Array.from({ length: 50 }, () => ({ $ref: "#/$defs/a" })) } }, $ref: "#/$defs/a" };
    expect(problemsOf("x", wide)).toEqual([]);
  });

  test("patterns that could take for ever are left to the agent", () => {
    for (const pattern of ["(a+)+$", "(a|a)*$", "((a)+)+", "(.*)*x", "a*a*a*a*a*$", "(a)\\1", "(?=a*)a", "(a{1,9}){5,}", "^(a?){25}$", `^${"(a|a)".repeat(25)}$`, "^(.?){40}!$"]) {
      expect(isQuick(pattern, "aaaa")).toBe(false);
    }
    for (const pattern of ["^[0-9]{5}$", "^\\d+$", "^[a-z]+@[a-z]+\\.[a-z]+$", "^(?:ab)?c$"]) expect(isQuick(pattern, "a")).toBe(true);
    const start = cpuTime();
    problemsOf("a".repeat(40), { type: "string", pattern: "^(a+)+$b" });
    expect(cpuTime() - start).toBeLessThan(100);
  });
});

test("a small schema cannot ask for millions of choices", () => {
  const schema = {
    type: "object",
    $defs: { e: { enum: Array.from({ length: 5_000 }, (_, number) => number) } },
    properties: Object.fromEntries(Array.from({ length: 2_000 }, (_, number) => [`f${number}`, { $ref: "#/$defs/e" }])),
  };
  const fields = fieldsOf(schema);
  expect(fields.reduce((sum, field) => sum + field.choices.length, 0)).toBeLessThanOrEqual(MAX_CHOICES);
  expect(fields.at(-1)!.kind).toBe("json");
});

describe("a form in the page", () => {
  const box = document.createElement("div");
  document.body.append(box);
  afterEach(() => render(null, box));

  const field = (label: string) => {
    const found = [...box.querySelectorAll("label")].find((each) => each.textContent!.startsWith(label))!;
    return box.querySelector<HTMLInputElement>(`#${found.htmlFor}`)!;
  };
  async function enter(label: string, value: string) {
    await act(() => {
      const element = field(label);
      element.value = value;
      element.dispatchEvent(new Event(element.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
    });
  }
  const submit = () => act(() => void box.querySelector("form")!.dispatchEvent(new Event("submit", { cancelable: true, bubbles: true })));

  test("sends what was entered", async () => {
    const sent = vi.fn();
    await act(() => render(<SchemaForm schema={LOAN} onSubmit={sent} />, box));
    await enter("Title of the book", "Ulysses");
    await enter("color", "0");
    await enter("gift", "false");
    await submit();
    expect(sent).toHaveBeenCalledExactlyOnceWith({ title: "Ulysses", weeks: 2, color: "red", gift: false });
  });

  test("leads to the first field that is wrong, with its problem linked to it", async () => {
    const sent = vi.fn();
    await act(() => render(<SchemaForm schema={LOAN} onSubmit={sent} />, box));
    await submit();
    const title = field("Title of the book");
    expect(sent).not.toHaveBeenCalled();
    expect(document.activeElement).toBe(title);
    expect(title.getAttribute("aria-invalid")).toBe("true");
    expect(box.querySelector(`#${title.getAttribute("aria-describedby")!}`)!.textContent).toBe("This field is required.");
    expect(box.querySelector("[role=alert]")!.textContent).toBe("2 fields are not valid. ");
  });

  test("with 500 fields has a search, and typing renders one field", async () => {
    const properties = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`field-${index}`, { type: "string" }]));
    await act(() => render(<SchemaForm schema={{ type: "object", properties }} onSubmit={() => undefined} />, box));
    expect(box.querySelectorAll(".schema-field")).toHaveLength(500);
    expect(new Set([...box.querySelectorAll("[id]")].map((each) => each.id)).size).toBe(box.querySelectorAll("[id]").length);
    const changes = new Set<Node>();
    const observer = new MutationObserver((records) => records.forEach((record) => changes.add(record.target)));
    observer.observe(box, { subtree: true, childList: true, characterData: true, attributes: true });
    await enter("field-250", "x");
    await act(() => void box.querySelector<HTMLInputElement>("[type=search]")!.dispatchEvent(new Event("input")));
    observer.disconnect();
    expect(changes.size).toBeLessThan(5);
    const search = box.querySelector<HTMLInputElement>("[type=search]")!;
    search.value = "field-49";
    await act(() => void search.dispatchEvent(new Event("input", { bubbles: true })));
    expect(box.querySelectorAll(".schema-field:not([hidden])")).toHaveLength(11);
  });
});
