// Health: whether the host takes requests, and for operators what is known of the running process.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { bytesText, countText, durationText } from "../../text/safe.ts";
import { Badge, Facts, LoadState, Name, Problem, Section, useLoad } from "../../ui/index.ts";
import { Head } from "./head.tsx";
import { call } from "./host_call.ts";
import type { Rights } from "./section.ts";

interface Reason {
  reason: string;
  text: string;
  since?: string;
}

interface HostFacts {
  version: string;
  python: string;
  now: number;
  store: { kind: string; is_shared: boolean; bytes: number | null; free_bytes: number | null };
  default_model: { name: string; problem: string };
  memory_bytes: number | null;
  loop_delay_seconds: number;
  tenants: number;
  runs: number;
  public_url: string | null;
}

const REFRESH_MS = 5_000;
/** How late the event loop may be before the process has too much to do. */
const LATE_SECONDS = 0.05;

interface Health {
  ready: { status: string; reasons?: Reason[] };
  api: { ok: boolean; reasons?: Reason[] };
}

async function readHealth(signal: AbortSignal): Promise<Health> {
  const accepts = [503];
  const [ready, api] = await Promise.all([
    call<Health["ready"]>("GET", "/readyz", { signal, accepts }),
    call<Health["api"]>("GET", "/v1/health", { signal, accepts }),
  ]);
  return { ready, api };
}

export function HealthPage({ rights }: { rights: Rights }) {
  const health = useLoad(readHealth, []);
  const facts = useLoad(async (signal) => (rights.is_operator ? call<HostFacts>("GET", "/v1/admin/facts", { signal }) : null), [rights.is_operator]);
  useEffect(() => {
    const read = () => {
      if (document.visibilityState !== "visible") return;
      health.reload();
      facts.reload();
    };
    const timer = setInterval(read, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <Head
        title="Health" about={`As load balancers see it at /readyz and /v1/health; read again every ${REFRESH_MS / 1000} seconds.`}
        onReload={() => (health.reload(), facts.reload())}
      />
      <LoadState of={health} text="Asking the host…" title="The host does not answer" />
      {health.value && <HealthView health={health.value} />}
      {facts.error ? <Problem error={facts.error} retry={facts.reload} /> : null}
      {facts.value && <FactsView facts={facts.value} />}
    </>
  );
}

function HealthView({ health }: { health: Health }) {
  const reasons = [...(health.ready.reasons ?? []), ...(health.api.reasons ?? [])];
  const unique = reasons.filter((each, index) => reasons.findIndex((other) => other.text === each.text) === index);
  const isWell = health.ready.status === "ok" && health.api.ok;
  return (
    <div class="health" role="status">
      <Badge tone={isWell ? "good" : health.ready.status === "draining" ? "waiting" : "bad"}>{isWell ? "The host takes requests" : `The host is ${health.ready.status}`}</Badge>
      {unique.map((each) => <p key={each.text}><Name text={each.text} length={300} /></p>)}
    </div>
  );
}

function FactsView({ facts }: { facts: HostFacts }) {
  const clock = Math.abs(Date.now() / 1000 - facts.now);
  const rows: [string, ComponentChildren][] = [
    ["Parley", `${facts.version} on Python ${facts.python}`],
    ["Store", `${facts.store.kind}${facts.store.is_shared ? ", shared by several processes" : ""}${facts.store.bytes === null ? "" : `, ${bytesText(facts.store.bytes)}`}`],
    ["Free disk", facts.store.free_bytes === null ? null : bytesText(facts.store.free_bytes)],
    ["Default model", <><code>{facts.default_model.name}</code>{facts.default_model.problem && <> <Badge tone="bad">{facts.default_model.problem}</Badge></>}</>],
    ["Most memory used", facts.memory_bytes === null ? null : bytesText(facts.memory_bytes)],
    ["Event loop", facts.loop_delay_seconds > LATE_SECONDS ? <Badge tone="waiting">late by {durationText(facts.loop_delay_seconds * 1000)}</Badge> : `late by ${durationText(facts.loop_delay_seconds * 1000)}`],
    ["Clock", clock > 30 ? <Badge tone="waiting">differs by {durationText(clock * 1000)} from this browser's</Badge> : "as this browser's"],
    ["Tenants", countText(facts.tenants)],
    ["At work", countText(facts.runs)],
    ["Public URL", facts.public_url],
  ];
  return <Section title="The process"><Facts facts={rows} /></Section>;
}
