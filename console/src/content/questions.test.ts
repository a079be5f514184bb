// What people are shown of a question: not what it says again for programs.

import { expect, test } from "vitest";
import type { Message, Part } from "../a2a/types.ts";
import { partsForPeople } from "./questions.ts";

const TEXT: Part = { text: "I need a key." };
const DATA: Part = { data: { schemes: ["ApiKey"], scopes: ["read"] } };

function message(metadata: Message["metadata"]): Message {
  return { messageId: "m-1", role: "ROLE_AGENT", parts: [TEXT, DATA, { data: [1] }], ...(metadata && { metadata }) };
}

test("the description of a permission is shown once", () => {
  expect(partsForPeople(message({ "urn:parley:authorization-request:1": { scheme: "ApiKey" } }))).toEqual([TEXT, { data: [1] }]);
});

test("data of other agents is shown", () => {
  expect(partsForPeople(message({ other: 1 }))).toHaveLength(3);
  expect(partsForPeople(message(undefined))).toHaveLength(3);
  expect(partsForPeople(undefined)).toEqual([]);
});
