// What people are shown of a question: not what it says again for programs.

import { expect, test } from "vitest";
import type { Message, Part } from "../a2a/types.ts";
import { partsForPeople, schemeAskedFor } from "./questions.ts";

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

test.each([
  [{ scheme: "ApiKey", text: true }, "ApiKey"],
  [{ scheme: "Bearer", url: "https://login.example", text: true }, "Bearer"],
  [{ scheme: "Vault", url: "https://login.example" }, "Vault"],
  [{ scopes: ["read"] }, "Bearer"],
  [{ scheme: "Bearer", url: "https://login.example" }, ""],
  [{ scheme: "Bearer", answer: "callback", text: true }, ""],
  ["ApiKey", ""],
  [undefined, ""],
])("of a permission that is described as %j, the scheme of the credential to send is %s", (asked, scheme) => {
  const metadata = asked ? { "urn:parley:authorization-request:1": asked } : undefined;
  expect(schemeAskedFor({ state: "TASK_STATE_AUTH_REQUIRED", message: message(metadata) })).toBe(scheme);
});
