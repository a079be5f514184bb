import { describe, expect, test } from "vitest";
import { compareRules, conclusion, groupFindings, VERDICTS, type Finding, type Report, type Verdict } from "./report.ts";

function finding(rule: string, verdict: Verdict, endpoint = "1.0 JSON-RPC"): Finding {
  return {
    rule,
    specification: "A2A 1.0",
    says: "A server MUST …",
    case: `A case of ${rule}`,
    endpoint,
    verdict,
    detail: "",
    hint: null,
    seconds: 0.1,
    exchanges: [],
  };
}

function report(findings: Finding[], more: Partial<Report> = {}): Report {
  const counts = Object.fromEntries(VERDICTS.map((verdict) => [verdict, findings.filter((one) => one.verdict === verdict).length]));
  return {
    url: "http://localhost",
    agent: "Currency",
    at: "",
    made_by: "",
    options: {},
    endpoints: [],
    incomplete: [],
    blocked: [],
    hints: {},
    requests: 0,
    seconds: 0,
    counts: counts as Report["counts"],
    findings,
    ...more,
  };
}

describe("groups", () => {
  const all = new Set(VERDICTS);
  const sample = report(
    [
      finding("G1.2", "passed"),
      finding("G1.10", "failed"),
      finding("G1.2", "warned"),
      finding("G1.3", "failed"),
      finding("G2.1", "undecided", "0.3 REST"),
    ],
    { incomplete: ["0.3 REST"] },
  );

  test("findings are by endpoint and rule, broken rules first and in the order of their numbers", () => {
    const [first, second] = groupFindings(sample, all);
    expect(first!.rules.map((group) => [group.rule, group.verdict, group.findings.length])).toEqual([
      ["G1.3", "failed", 1],
      ["G1.10", "failed", 1],
      ["G1.2", "warned", 2],
    ]);
    expect(first!.rules[2]!.findings.map((each) => each.verdict)).toEqual(["warned", "passed"]);
    expect([second!.endpoint, second!.isIncomplete]).toEqual(["0.3 REST", true]);
  });

  test("a filter hides findings and leaves the counts", () => {
    const [first, second] = groupFindings(sample, new Set<Verdict>(["passed"]));
    expect(first!.rules.map((group) => group.rule)).toEqual(["G1.2"]);
    expect(first!.counts).toEqual({ failed: 2, warned: 1, undecided: 0, passed: 1 });
    expect(second!.rules).toEqual([]);
  });

  test("rules are in the order of their numbers", () => {
    expect(["G1.10", "A1.1", "G1.2"].sort(compareRules)).toEqual(["A1.1", "G1.2", "G1.10"]);
  });
});

test.each([
  [report([finding("G1.1", "passed")]), "No rule is broken."],
  [report([finding("G1.1", "warned")]), "No rule is broken; 1 recommendation is."],
  [report([finding("G1.1", "failed"), finding("G1.2", "failed")]), "2 cases break rules."],
  [report([finding("G1.1", "failed")], { incomplete: ["1.0"] }), "Not checked to the end: 1.0."],
  [report([finding("G1.1", "undecided")], { blocked: ["1.0"] }), "Hardly anything could be decided. The hints below say what would help."],
])("the result is one sentence %#", (given, expected) => expect(conclusion(given)).toBe(expected));
