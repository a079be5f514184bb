// One agent of a tenant: its constitution, versions and draft, whether it is public, the kill switch, and its deletion.

import { useState } from "preact/hooks";
import type { JsonValue } from "../../a2a/types.ts";
import { DataView } from "../../content/data_view.tsx";
import { links, navigate } from "../../router.ts";
import { shortLine } from "../../text/safe.ts";
import { Badge, Button, ButtonLink, confirm, Facts, LoadState, StateBadge, Tabs, Time, toast, toastError, useLoad } from "../../ui/index.ts";
import { ActionDialog, beginAction, type ActionRun } from "./action_dialog.tsx";
import { DraftEditor, LiveEditor } from "./agent_edit.tsx";
import { AgentVersions } from "./agent_versions.tsx";
import { constitutionIn } from "./constitution.ts";
import { Head } from "./head.tsx";
import { call } from "./host_call.ts";
import { actionsOf, type Action, type Rights, type Row } from "./section.ts";
import { TENANT_SECTIONS } from "./tenant_sections.ts";

const AGENTS = TENANT_SECTIONS[0]!;

const DELETE: Action = {
  label: "Delete",
  method: "DELETE",
  path: "/{id}",
  warning: "Its work stops, and its versions and all drafts of it are deleted. This cannot be undone. Its requests can still be read.",
  typed: "id",
  isDanger: true,
  revision: "header",
  done: "{} was deleted.",
};

export function AgentPage({ id, rights }: { id: string; rights: Rights }) {
  const agent = useLoad((signal) => call("GET", `/v1/agents/${encodeURIComponent(id)}`, { signal }), [id, rights.tenant]);
  const [tab, setTab] = useState("constitution");
  const [run, setRun] = useState<ActionRun | null>(null);
  const row = agent.value;
  if (!row) return <LoadState of={agent} text="Reading the agent…" />;
  const isStored = row.version !== undefined;
  const canManage = rights.is_operator || rights.scopes.includes("manage");
  const actions = actionsOf([...AGENTS.actions!, ...(isStored ? [DELETE] : [])], row, rights);
  const seen = { ...row, revision: row.version };
  const begin = (action: Action) => beginAction({ section: AGENTS, action, row: seen }, setRun, agent.reload);
  const edit = { agent: row, canManage, onChange: agent.reload };
  return (
    <>
      <p class="operate-trail"><a href={links.operate("agents")}>Agents</a> / <code>{shortLine(id, 64)}</code></p>
      <Head
        title={shortLine(String(row.name), 80)}
        about={
          <span class="operate-marks">
            <Badge tone="neutral">{isStored ? `version ${String(row.version)}` : "of the operator"}</Badge>
            {row.pinned_version !== undefined && <Badge tone="waiting">calls go to version {String(row.pinned_version)}</Badge>}
            <StateBadge state={row.stopped ? "stopped" : "ready"} />
          </span>
        }
      >
        <ButtonLink small href={links.chat(id)} icon="chat">Chat</ButtonLink>
        {actions.map((action) => <Button key={action.label} small onClick={() => begin(action)}>{action.label}</Button>)}
      </Head>
      {row.stopped ? <StopView stop={row.stopped as Stop} /> : null}
      {isStored ? (
        <Tabs
          label="Parts of the agent" selected={tab} onSelect={setTab}
          tabs={[
            { id: "constitution", title: "Constitution" },
            { id: "versions", title: "Versions" },
            ...(canManage ? [{ id: "draft", title: "Draft" }] : []),
            { id: "public", title: "Public" },
          ]}
        >
          {tab === "constitution" && <LiveEditor key={id} {...edit} />}
          {tab === "versions" && <AgentVersions agent={row} canManage={canManage} onChange={agent.reload} />}
          {tab === "draft" && <DraftEditor {...edit} />}
          {tab === "public" && <PublicMark id={id} canManage={canManage} />}
        </Tabs>
      ) : (
        <>
          <p class="dim">This agent belongs to the operator. It can be stopped for this tenant, and not be changed.</p>
          <DataView value={constitutionIn(row) as JsonValue} label="Constitution" />
        </>
      )}
      {run && (
        <ActionDialog
          run={run} onClose={() => setRun(null)}
          onDone={() => (run.action === DELETE ? navigate(links.operate("agents")) : agent.reload())}
        />
      )}
    </>
  );
}

interface Stop {
  target: string;
  reason: string;
  by: string;
  at: number;
}

function StopView({ stop }: { stop: Stop }) {
  const what = stop.target === "agent" ? "this agent" : stop.target === "tenant" ? "all agents of the tenant" : "all agents of the tenant, by the operator";
  return (
    <div class="card operate-stop">
      <Facts facts={[["Stopped", what], ["Reason", shortLine(stop.reason, 300)], ["By", shortLine(stop.by, 80)], ["Since", <Time at={new Date(stop.at * 1000).toISOString()} />]]} />
    </div>
  );
}

function PublicMark({ id, canManage }: { id: string; canManage: boolean }) {
  const path = `/v1/agents/${encodeURIComponent(id)}/public`;
  const state = useLoad((signal) => call<Row & { public: boolean; card_url?: string }>("GET", path, { signal }), [path]);
  const change = async (isPublic: boolean) => {
    const text = isPublic
      ? "Its card is shown to callers without a token, in the public catalogue of this host: name, goal, skills and examples. Calls still need a token."
      : "Its card is not shown any more to callers without a token. What was read before stays known.";
    if (!(await confirm({ title: isPublic ? "Make this agent public?" : "Make this agent private?", text, action: isPublic ? "Make it public" : "Make it private" }))) return;
    try {
      state.set(await call("PUT", path, { body: { public: isPublic } }));
      toast(isPublic ? "The agent is public." : "The agent is private.");
    } catch (error) {
      toastError(error);
    }
  };
  if (state.error || !state.value) return <LoadState of={state} text="Reading…" />;
  const { public: isPublic, card_url } = state.value;
  return (
    <>
      <p>{isPublic ? "This agent is public: everyone can read its card." : "This agent is private: only callers of the tenant see it."}</p>
      {card_url && <p><code>{shortLine(card_url, 300)}</code></p>}
      {canManage && <Button onClick={() => void change(!isPublic)}>{isPublic ? "Make it private" : "Make it public"}</Button>}
    </>
  );
}
