// Check: runs `parley check` against an agent, says what it does meanwhile, and shows the report and earlier ones.
// The check runs at the server: `?check=ID` in the address finds it again, also after the page was loaded anew.

import { useEffect, useState } from "preact/hooks";
import { api, ApiError, path } from "../../api/http.ts";
import { openChannel } from "../../api/stream.ts";
import type { AgentList, CheckProgress } from "../../api/types.ts";
import { query, setQuery } from "../../router.ts";
import { plural, shortLine } from "../../text/safe.ts";
import { announce, Badge, Button, LoadState, Page, Problem, Progress, Section, Time, toastError, useLoad } from "../../ui/index.ts";
import "../../styles/check.css";
import { CheckForm, type CheckRequest } from "./form.tsx";
import { conclusion, VERDICTS, type Counts, type Report } from "./report.ts";
import { ReportView } from "./report_view.tsx";

/** A check of this session, as GET /checks lists it. */
interface EarlierCheck {
  id: string;
  agent: string;
  agent_name: string;
  state: "running" | "done" | "failed";
  began_at: string;
  counts: Counts | null;
}

export default function CheckPage() {
  const id = query.value.get("check") ?? "";
  const agents = useLoad((signal) => api.get<AgentList>("/agents", { signal }), []);
  const earlier = useLoad((signal) => earlierChecks(signal), [id]);
  const check = useCheck(id, earlier.reload);
  const [isStarting, setStarting] = useState(false);

  const start = async (request: CheckRequest) => {
    setStarting(true);
    try {
      const { check } = await api.post<{ check: string }>("/checks", request);
      setQuery({ check, agent: request.agent }, { push: true });
    } catch (error) {
      toastError(error, "The check could not begin");
    } finally {
      setStarting(false);
    }
  };

  return (
    <Page title="Check">
      <p class="dim">Calls an agent in every version and binding that its card declares, and says which rules of A2A it keeps.</p>
      <LoadState of={agents} text="Looking for agents…" />
      {agents.value && (
        <CheckForm
          agents={agents.value.agents} agent={query.value.get("agent") ?? ""} onStart={start}
          busy={isStarting ? "Starting…" : check.state === "running" ? "Running…" : ""}
        />
      )}
      {id && <CheckResult id={id} check={check} />}
      <EarlierChecks checks={earlier.value ?? []} current={id} />
    </Page>
  );
}

async function earlierChecks(signal: AbortSignal): Promise<EarlierCheck[]> {
  return (await api.get<{ checks: EarlierCheck[] }>("/checks", { signal })).checks;
}

// --- one check -------------------------------------------------------------------------------------------------------

interface CheckNow {
  state: "loading" | "running" | "done" | "failed" | "stopped";
  progress: CheckProgress | null;
  report: Report | null;
  error: unknown;
}

const LOADING: CheckNow = { state: "loading", progress: null, report: null, error: null };

/** Follow a check by its channel until it has a report. */
function useCheck(id: string, onEnd: () => void): CheckNow & { stop: () => void } {
  const [now, setNow] = useState<CheckNow>(LOADING);
  useEffect(() => {
    setNow(LOADING);
    if (!id) return;
    const end = (last: Partial<CheckNow>) => {
      setNow((before) => ({ ...before, ...last }));
      onEnd();
    };
    const channel = openChannel(
      { kind: "check", check: id },
      {
        onData: ({ progress, report }) => {
          if (progress) setNow((before) => ({ ...before, state: "running", progress }));
          if (!report) return;
          const done = report as unknown as Report;
          announce(`The check has ended. ${conclusion(done)}`);
          end({ state: "done", report: done });
        },
        onError: (error) => end({ state: "failed", error }),
        onEnd: () => setNow((before) => (before.report ? before : { ...before, state: "stopped" })),
      },
    );
    return () => channel.close();
  }, [id]);
  const stop = () => {
    api.delete(`/checks${path(id)}`).then(
      () => {
        setNow((before) => ({ ...before, state: "stopped" }));
        announce("The check was stopped.");
        onEnd();
      },
      (error: unknown) => toastError(error, "The check could not be stopped"),
    );
  };
  return { ...now, stop };
}

function CheckResult({ id, check }: { id: string; check: ReturnType<typeof useCheck> }) {
  switch (check.state) {
    case "loading":
      return <Progress text="Waiting for the check…" />;
    case "running":
      return <Running progress={check.progress} onStop={check.stop} />;
    case "failed": {
      const isGone = check.error instanceof ApiError && check.error.code === "not_found";
      return <Problem error={isGone ? new Error("The server has no such check any more.") : check.error} title="The check has no report" />;
    }
    case "stopped":
      return <p class="check-stopped">The check was stopped. It has no report.</p>;
    case "done":
      return check.report && <ReportView id={id} report={check.report} />;
  }
}

function Running({ progress, onStop }: { progress: CheckProgress | null; onStop: () => void }) {
  return (
    <div class="check-running" role="status">
      <span class="spinner" aria-hidden="true" />
      <div class="check-running-text">
        <strong>{progress ? `${plural(progress.done, "case")} done` : "Looking for the card…"}</strong>
        {progress && <span>{shortLine(progress.endpoint, 80)}: {shortLine(progress.case, 120)}</span>}
      </div>
      <Button small icon="stop" onClick={onStop}>Stop</Button>
    </div>
  );
}

// --- earlier checks --------------------------------------------------------------------------------------------------

function EarlierChecks({ checks, current }: { checks: readonly EarlierCheck[]; current: string }) {
  const others = checks.filter((check) => check.id !== current);
  if (!others.length) return null;
  return (
    <Section title="Earlier checks of this session">
      <ul class="check-earlier">
        {others.map((check) => (
          <li key={check.id}>
            <button type="button" class="link" onClick={() => setQuery({ check: check.id, agent: check.agent }, { push: true })}>
              {shortLine(check.agent_name || check.agent, 60)}
            </button>
            <Time at={check.began_at} />
            {check.counts
              ? VERDICTS.filter((verdict) => check.counts![verdict]).map((verdict) => (
                  <span key={verdict} class={`verdict verdict-${verdict}`}>{check.counts![verdict]} {verdict}</span>
                ))
              : <Badge tone={check.state === "running" ? "active" : "neutral"}>{check.state}</Badge>}
          </li>
        ))}
      </ul>
    </Section>
  );
}
