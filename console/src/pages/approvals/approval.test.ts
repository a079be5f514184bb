// What refusals of a decision mean in plain words.

import { expect, it } from "vitest";
import { ApiError } from "../../api/http.ts";
import { momentOf, refusalText } from "./approval.ts";

it.each([
  [403, "This needs the decision of another principal than the one that asked for it.", "four eyes"],
  [403, "The rule for this step names other approvers.", "Ask one of them"],
  [403, "This needs the scope 'approve', which this token does not have.", "lacks the scope “approve”"],
  [409, "Denied by ada at 06:00.", "Denied by ada"],
  [503, "The task does not wait for this approval yet; try again in a moment", "try again in a moment"],
])("says for %i %s what to do", (status, message, expected) => {
  expect(refusalText(new ApiError("forbidden", message, status))).toContain(expected);
});

it("reads times as seconds, and 0 as none", () => {
  expect([momentOf(0), momentOf(1_700_000_000)]).toEqual([null, "2023-11-14T22:13:20.000Z"]);
});
