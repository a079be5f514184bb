// What is entered into a form, the answer it makes, and what is wrong with it, field by field.
// Every field has a signal of its own, so that typing into one of 500 renders that one only.

import { signal, type Signal } from "../signals.ts";
import type { JsonObject, JsonValue } from "../a2a/types.ts";
import { problemsOf } from "./schema_check.ts";
import {
  EntryError, entryAtFirst, fieldsOf, keyOf, leavesOf, valueOf, type Entry, type Field,
} from "./schema_fields.ts";

export class FormState {
  readonly fields: Field[];
  readonly leaves: Field[];
  /** What is wrong with the form as a whole; empty if nothing is. */
  readonly problem = signal("");
  private readonly entries = new Map<string, Signal<Entry>>();
  private readonly problems = new Map<string, Signal<string>>();

  constructor(readonly schema: JsonObject) {
    this.fields = fieldsOf(schema);
    this.leaves = leavesOf(this.fields);
    for (const field of this.leaves) {
      this.entries.set(keyOf(field), signal(entryAtFirst(field)));
      this.problems.set(keyOf(field), signal(""));
    }
  }

  entry(field: Field): Signal<Entry> {
    return this.entries.get(keyOf(field))!;
  }

  problemOf(field: Field): Signal<string> {
    return this.problems.get(keyOf(field))!;
  }

  /** The answer if everything in it is valid; otherwise null, and every field says what is wrong. */
  check(): JsonObject | null {
    const { answer, found, rest } = this.read();
    for (const field of this.leaves) this.problemOf(field).value = found.get(keyOf(field)) ?? "";
    this.problem.value = rest.join("; ");
    return found.size === 0 && rest.length === 0 ? answer : null;
  }

  /** Look at one field only, after it was filled in. */
  checkField(field: Field): void {
    this.problemOf(field).value = this.read().found.get(keyOf(field)) ?? "";
  }

  /** The fields that are not valid, as far as they were checked. */
  invalid(): Field[] {
    return this.leaves.filter((field) => this.problemOf(field).value);
  }

  private read(): { answer: JsonObject; found: Map<string, string>; rest: string[] } {
    const found = new Map<string, string>();
    const answer = this.answerOf(this.fields, found);
    const rest: string[] = [];
    const known = new Map(this.leaves.map((field) => [keyOf(field), field]));
    for (const { path, reason } of problemsOf(answer, this.schema)) {
      const key = ownerOf(path, known);
      const text = `${reason[0]!.toUpperCase()}${reason.slice(1)}.`;
      if (key === null) rest.push(path.length > 0 ? `${path.join(".")}: ${reason}` : reason);
      else if (!found.has(key)) found.set(key, text);
    }
    return { answer, found, rest };
  }

  private answerOf(fields: readonly Field[], found: Map<string, string>): JsonObject {
    const members: [string, JsonValue][] = [];
    for (const field of fields) {
      if (field.kind === "group") {
        // A group without answers is left out, and what it requires with it.
        if (!field.isRequired && leavesOf([field]).every((leaf) => this.isEmpty(leaf))) continue;
        members.push([field.name, this.answerOf(field.fields, found)]);
        continue;
      }
      try {
        const value = valueOf(field, this.entry(field).peek());
        if (value !== undefined) members.push([field.name, value]);
      } catch (error) {
        if (!(error instanceof EntryError)) throw error;
        found.set(keyOf(field), error.message);
      }
    }
    return Object.fromEntries(members);
  }

  private isEmpty(field: Field): boolean {
    return this.entry(field).peek().length === 0;
  }
}

/** The field that a path leads to or into. */
function ownerOf(path: (string | number)[], known: ReadonlyMap<string, Field>): string | null {
  for (let length = path.length; length > 0; length--) {
    const key = JSON.stringify(path.slice(0, length));
    if (known.has(key)) return key;
  }
  return null;
}
