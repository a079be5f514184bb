// The report of a check as `parley check --json` writes it, and how the page groups it: by endpoint, then by rule.

export const VERDICTS = ["failed", "warned", "undecided", "passed"] as const;
export type Verdict = (typeof VERDICTS)[number];

export interface Finding {
  rule: string;
  specification: string;
  says: string;
  case: string;
  endpoint: string;
  verdict: Verdict;
  detail: string;
  hint: string | null;
  seconds: number;
  exchanges: { sent: string; received: string }[];
}

export interface Report {
  url: string;
  agent: string;
  at: string;
  made_by: string;
  options: Record<string, string>;
  endpoints: string[];
  incomplete: string[];
  blocked: string[];
  hints: Record<string, number>;
  requests: number;
  seconds: number;
  counts: Record<Verdict, number>;
  findings: Finding[];
}

export type Counts = Record<Verdict, number>;

export interface RuleGroup {
  rule: string;
  specification: string;
  findings: Finding[];
  /** The worst verdict of its findings. */
  verdict: Verdict;
}

export interface EndpointGroup {
  endpoint: string;
  counts: Counts;
  isIncomplete: boolean;
  isBlocked: boolean;
  rules: RuleGroup[];
}

/** The findings with these verdicts by endpoint and rule, the worst rules first. Counts are of all findings. */
export function groupFindings(report: Report, shown: ReadonlySet<Verdict>): EndpointGroup[] {
  const endpoints = new Map<string, Finding[]>();
  for (const finding of report.findings) push(endpoints, finding.endpoint, finding);
  return [...endpoints].map(([endpoint, findings]) => ({
    endpoint,
    counts: countVerdicts(findings),
    isIncomplete: report.incomplete.includes(endpoint),
    isBlocked: report.blocked.includes(endpoint),
    rules: groupRules(findings.filter((finding) => shown.has(finding.verdict))),
  }));
}

function groupRules(findings: readonly Finding[]): RuleGroup[] {
  const rules = new Map<string, Finding[]>();
  for (const finding of findings) push(rules, finding.rule, finding);
  const groups = [...rules].map(([rule, same]) => ({
    rule,
    specification: same[0]!.specification,
    findings: same.toSorted((a, b) => severity(a.verdict) - severity(b.verdict)),
    verdict: worst(same),
  }));
  return groups.sort((a, b) => severity(a.verdict) - severity(b.verdict) || compareRules(a.rule, b.rule));
}

function push<T>(groups: Map<string, T[]>, name: string, value: T): void {
  const group = groups.get(name);
  if (group) group.push(value);
  else groups.set(name, [value]);
}

export function countVerdicts(findings: readonly Finding[]): Counts {
  const counts: Counts = { failed: 0, warned: 0, undecided: 0, passed: 0 };
  for (const finding of findings) counts[finding.verdict] += 1;
  return counts;
}

function severity(verdict: Verdict): number {
  return VERDICTS.indexOf(verdict);
}

function worst(findings: readonly Finding[]): Verdict {
  return VERDICTS.find((verdict) => findings.some((finding) => finding.verdict === verdict)) ?? "passed";
}

/** G1.2 comes before G1.10. */
export function compareRules(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

/** The result in one sentence. */
export function conclusion(report: Report): string {
  const { failed, warned } = report.counts;
  if (report.incomplete.length) return `Not checked to the end: ${report.incomplete.join(", ")}.`;
  if (failed) return failed === 1 ? "1 case breaks a rule." : `${failed} cases break rules.`;
  if (report.blocked.length) return "Hardly anything could be decided. The hints below say what would help.";
  if (warned) return warned === 1 ? "No rule is broken; 1 recommendation is." : `No rule is broken; ${warned} recommendations are.`;
  return "No rule is broken.";
}
