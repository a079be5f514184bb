// The report of a check: the result in a sentence, then endpoints with their rules, each with its evidence folded.

import { useMemo, useState } from "preact/hooks";
import { api } from "../../api/http.ts";
import { durationText, plural, safeText, shortLine } from "../../text/safe.ts";
import { Button, CopyButton, Dialog, Facts, LoadState, Name, Section, toastError, useLoad } from "../../ui/index.ts";
import { download, saveBlob } from "../operate/host_call.ts";
import { conclusion, groupFindings, VERDICTS, type EndpointGroup, type Finding, type Report, type RuleGroup, type Verdict } from "./report.ts";

const MARKS: Record<Verdict, string> = { failed: "✗", warned: "!", undecided: "?", passed: "✓" };
const PROBLEMS: readonly Verdict[] = ["failed", "warned"];

export function ReportView({ id, report }: { id: string; report: Report }) {
  const hasProblems = PROBLEMS.some((verdict) => report.counts[verdict]);
  const [shown, setShown] = useState<ReadonlySet<Verdict>>(() => new Set(hasProblems ? PROBLEMS : VERDICTS));
  const [rule, showRule] = useState("");
  const groups = useMemo(() => groupFindings(report, shown), [report, shown]);
  const toggle = (verdict: Verdict) => {
    const next = new Set(shown);
    if (!next.delete(verdict)) next.add(verdict);
    setShown(next);
  };
  return (
    <Section title={`Report of ${shortLine(report.agent, 60)}`} actions={<Downloads id={id} report={report} />}>
      <p class={`check-result ${report.counts.failed || report.incomplete.length ? "is-failed" : "is-passed"}`}>{conclusion(report)}</p>
      <Facts
        facts={[
          ["URL", <Name text={report.url} length={100} />],
          ["Checked", `${report.at}, ${plural(report.requests, "request")} in ${durationText(report.seconds * 1000)}`],
          ["Options", shortLine(Object.entries(report.options).map(([name, value]) => `${name}: ${value}`).join("; "), 200)],
        ]}
      />
      {Object.entries(report.hints).map(([hint, count]) => (
        <p key={hint} class="check-hint">{plural(count, "case")} undecided: {safeText(hint)}</p>
      ))}
      <div class="verdicts" role="group" aria-label="Show cases that are">
        {VERDICTS.map((verdict) => (
          <button
            key={verdict} type="button" class={`verdict verdict-${verdict}`} aria-pressed={shown.has(verdict)} onClick={() => toggle(verdict)}
          >
            <span aria-hidden="true">{MARKS[verdict]}</span> {report.counts[verdict]} {verdict}
          </button>
        ))}
      </div>
      {groups.map((group) => <Endpoint key={group.endpoint} group={group} onRule={showRule} />)}
      {rule && <RuleDialog rule={rule} onClose={() => showRule("")} />}
    </Section>
  );
}

function Downloads({ id, report }: { id: string; report: Report }) {
  const name = `check-${report.agent.replace(/[^\w-]+/g, "-").slice(0, 40)}`;
  const saveJson = () => saveBlob(new Blob([JSON.stringify(report, null, 2)], { type: "application/json" }), `${name}.json`);
  const save = (format: string, ending: string) => () =>
    download(`/console/api/checks/${encodeURIComponent(id)}/report`, `${name}.${ending}`, { format }).catch((error: unknown) =>
      toastError(error, "The report could not be downloaded"),
    );
  return (
    <div class="check-downloads">
      <Button small kind="quiet" icon="download" onClick={saveJson}>JSON</Button>
      <Button small kind="quiet" icon="download" onClick={save("html", "html")}>HTML</Button>
      <Button small kind="quiet" icon="download" onClick={save("junit", "xml")}>JUnit</Button>
    </div>
  );
}

function Endpoint({ group, onRule }: { group: EndpointGroup; onRule: (rule: string) => void }) {
  const counts = VERDICTS.filter((verdict) => group.counts[verdict]).map((verdict) => `${group.counts[verdict]} ${verdict}`);
  return (
    <section class="check-endpoint">
      <h3><Name text={group.endpoint} length={100} /></h3>
      <p class="dim">{counts.join(", ")}</p>
      {group.isIncomplete && <p class="check-hint">The check of this endpoint ended early.</p>}
      {group.isBlocked && <p class="check-hint">Hardly anything could be decided here.</p>}
      {group.rules.length ? (
        <ul class="check-rules">{group.rules.map((rule) => <Rule key={rule.rule} group={rule} onRule={onRule} />)}</ul>
      ) : (
        <p class="dim">No case with the chosen verdicts.</p>
      )}
    </section>
  );
}

function Rule({ group, onRule }: { group: RuleGroup; onRule: (rule: string) => void }) {
  return (
    <li class={`check-rule verdict-${group.verdict}`}>
      <div class="check-rule-head">
        <span class="check-mark" aria-hidden="true">{MARKS[group.verdict]}</span>
        <button type="button" class="link code" title="Read the rule" onClick={() => onRule(group.rule)}>{shortLine(group.rule, 20)}</button>
        <span class="dim">{shortLine(group.specification, 40)}</span>
      </div>
      {group.findings.map((finding, index) => <Case key={index} finding={finding} />)}
    </li>
  );
}

function Case({ finding }: { finding: Finding }) {
  return (
    <details class="check-case" open={finding.verdict === "failed" && finding.exchanges.length === 0}>
      <summary>
        <span class={`verdict verdict-${finding.verdict}`}>{finding.verdict}</span> {shortLine(finding.case, 160)}
      </summary>
      <div class="check-case-body">
        {finding.detail && <p>{safeText(finding.detail)}</p>}
        <blockquote>{safeText(finding.says)}</blockquote>
        {finding.hint && <p class="check-hint">{safeText(finding.hint)}</p>}
        {finding.exchanges.map((exchange, index) => (
          <div key={index} class="check-exchange">
            <Evidence title="Sent" text={exchange.sent} />
            <Evidence title="Received" text={exchange.received} />
          </div>
        ))}
      </div>
    </details>
  );
}

function Evidence({ title, text }: { title: string; text: string }) {
  return (
    <figure class="evidence">
      <figcaption><span>{title}</span><CopyButton text={text} iconOnly label={`Copy what was ${title.toLowerCase()}`} /></figcaption>
      <pre tabIndex={0}>{safeText(text)}</pre>
    </figure>
  );
}

// --- the text of rules -----------------------------------------------------------------------------------------------

interface RuleText {
  id: string;
  says: string;
  versions: string[];
  unobservable: string | null;
}

function RuleDialog({ rule, onClose }: { rule: string; onClose: () => void }) {
  const rules = useLoad((signal) => api.get<{ rules: RuleText[] }>("/checks/rules", { signal }), []);
  const found = rules.value?.rules.find((each) => each.id === rule);
  return (
    <Dialog title={`Rule ${rule}`} onClose={onClose}>
      <LoadState of={rules} text="Reading the rule…" />
      {found && (
        <>
          <p class="rule-text">{safeText(found.says)}</p>
          <p class="dim">A2A {found.versions.join(" and ")}</p>
          {found.unobservable && <p>No caller can see whether it is kept: {safeText(found.unobservable)}</p>}
        </>
      )}
      {rules.value && !found && <p>The server does not know this rule.</p>}
    </Dialog>
  );
}
