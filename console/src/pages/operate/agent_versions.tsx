// The versions of an agent: who made which and why, the difference of two, going back to one, and pinning one.

import { useState } from "preact/hooks";
import type { JsonValue } from "../../a2a/types.ts";
import { DataView } from "../../content/data_view.tsx";
import { Badge, Button, confirm, Dialog, LoadState, Name, Select, Table, Time, toast, toastError, useLoad } from "../../ui/index.ts";
import type { MemberChange } from "./diff.ts";
import { DiffView } from "./diff_view.tsx";
import { call } from "./host_call.ts";
import type { Row } from "./section.ts";

interface Version {
  version: number;
  by: string;
  at: number;
  note: string;
  rollback_to?: number;
  is_live: boolean;
}

export function AgentVersions({ agent, canManage, onChange }: { agent: Row; canManage: boolean; onChange: () => void }) {
  const path = `/v1/agents/${encodeURIComponent(String(agent.id))}`;
  const [before, setBefore] = useState<number | null>(null);
  const [earlier, setEarlier] = useState<Version[]>([]);
  const page = useLoad((signal) => call<{ versions: Version[]; next_before?: number }>("GET", `${path}/versions`, { query: { before }, signal }), [path, before, agent.version, agent.pinned_version]);
  const [shown, show] = useState<number | null>(null);
  const versions = [...earlier, ...(page.value?.versions ?? [])];

  const change = async (question: Parameters<typeof confirm>[0], work: () => Promise<string>) => {
    if (!(await confirm(question))) return;
    try {
      toast(await work());
      setEarlier([]);
      setBefore(null);
      onChange();
    } catch (error) {
      toastError(error);
    }
  };
  const rollBack = (version: number) =>
    change(
      { title: `Go back to version ${version}?`, text: `A new version with the content of version ${version} is made. Nothing is lost: you can go back again. Running tasks keep their version.`, action: "Go back" },
      async () => {
        const body = { version, expected_version: Number(agent.version), note: `Back to version ${version}` };
        return `Version ${String((await call("POST", `${path}/rollback`, { body })).version)} has the content of version ${version}.`;
      },
    );
  const pin = (version: number) =>
    change(
      { title: `Pin version ${version}?`, text: "Calls go to this version, whatever is newer, until another one is pinned or none. Newer versions are stored and not live.", action: "Pin" },
      async () => (await call("POST", `${path}/pin`, { body: { version } }), `Calls go to version ${version}.`),
    );
  const unpin = () =>
    change(
      { title: "Remove the pin?", text: `Calls go to the newest version again, which is ${String(agent.version)}.`, action: "Remove the pin" },
      async () => (await call("DELETE", `${path}/pin`), "Calls go to the newest version."),
    );

  if (page.error || !page.value) return <LoadState of={page} text="Reading versions…" />;
  return (
    <>
      <Table
        caption="Versions" rows={versions} rowKey={(row) => row.version}
        columns={[
          { title: "Version", isHeading: true, render: (row) => <button type="button" class="link" onClick={() => show(row.version)}>{row.version}</button> },
          { title: "State", render: (row) => <VersionMarks row={row} pinned={agent.pinned_version} /> },
          { title: "When", render: (row) => <Time at={new Date(row.at * 1000).toISOString()} /> },
          { title: "By", render: (row) => <code><Name text={row.by} length={40} /></code>, isMinor: true },
          { title: "Note", render: (row) => <Name text={row.note} length={120} none="" canExpand /> },
          {
            title: "Actions",
            render: (row) => canManage && (
              <div class="operate-actions" role="group" aria-label={`Actions of version ${row.version}`}>
                {row.version !== agent.version && <Button small kind="quiet" onClick={() => void rollBack(row.version)}>Go back to it</Button>}
                {agent.pinned_version === row.version
                  ? <Button small kind="quiet" onClick={() => void unpin()}>Remove the pin</Button>
                  : <Button small kind="quiet" onClick={() => void pin(row.version)}>Pin</Button>}
              </div>
            ),
          },
        ]}
      />
      {page.value.next_before !== undefined && (
        <Button busy={page.isLoading && "Reading…"} onClick={() => (setEarlier(versions), setBefore(page.value!.next_before!))}>Earlier versions</Button>
      )}
      {versions.length > 1 && <Comparison path={path} versions={versions} />}
      {shown !== null && <VersionDialog path={path} version={shown} onClose={() => show(null)} />}
    </>
  );
}

function VersionMarks({ row, pinned }: { row: Version; pinned: unknown }) {
  return (
    <>
      {row.is_live && <Badge tone="good">live</Badge>} {pinned === row.version && <Badge tone="waiting">pinned</Badge>}{" "}
      {row.rollback_to !== undefined && <span class="dim">as {row.rollback_to}</span>}
    </>
  );
}

function Comparison({ path, versions }: { path: string; versions: readonly Version[] }) {
  const [from, setFrom] = useState(String(versions[1]!.version));
  const [to, setTo] = useState(String(versions[0]!.version));
  const diff = useLoad((signal) => call<{ changes: MemberChange[] }>("GET", `${path}/diff`, { query: { from, to }, signal }), [path, from, to]);
  const options = versions.map((each) => ({ value: String(each.version), title: `${each.version}${each.note ? ` ${each.note.slice(0, 40)}` : ""}` }));
  return (
    <section class="section">
      <h3>Compare</h3>
      <div class="operate-filter">
        <Select label="From" value={from} onChange={setFrom} options={options} />
        <Select label="To" value={to} onChange={setTo} options={options} />
      </div>
      <LoadState of={diff} text="Comparing…" />
      {diff.value && <DiffView changes={diff.value.changes} labels={[`Version ${from}`, `Version ${to}`]} />}
    </section>
  );
}

function VersionDialog({ path, version, onClose }: { path: string; version: number; onClose: () => void }) {
  const whole = useLoad((signal) => call<{ constitution: JsonValue }>("GET", `${path}/versions/${version}`, { signal }), [path, version]);
  return (
    <Dialog title={`Version ${version}`} onClose={onClose} wide>
      <LoadState of={whole} text="Reading the version…" />
      {whole.value && <DataView value={whole.value.constitution} label={`Constitution of version ${version}`} />}
    </Dialog>
  );
}
