// Editing the live constitution of an agent, and the caller's draft of it. Both may meet a newer version of another author.

import { useEffect, useState } from "preact/hooks";
import { ApiError, messageOf } from "../../api/http.ts";
import { Button, confirm, EmptyState, Problem, Progress, TextInput, Time, toast, toastError, useLoad } from "../../ui/index.ts";
import { constitutionIn, toSend } from "./constitution.ts";
import { ConstitutionEditor, type Refusal } from "./constitution_editor.tsx";
import { call, HostError } from "./host_call.ts";
import { MergeDialog, type MergeState } from "./merge_dialog.tsx";
import type { Row } from "./section.ts";

export interface AgentEditProps {
  /** The agent as GET /v1/agents/ID shows it. */
  agent: Row;
  canManage: boolean;
  onChange: () => void;
}

const pathOf = (agent: Row) => `/v1/agents/${encodeURIComponent(String(agent.id))}`;

function refusalOf(error: unknown): Refusal {
  return error instanceof HostError ? { path: error.path, reason: error.reason } : { path: "", reason: messageOf(error) };
}

/** Whether the host refused a change because of a newer version, and says which. */
export function isStale(error: unknown): error is HostError {
  return error instanceof HostError && [409, 412].includes(error.status) && typeof error.details.current_version === "number";
}

/** What to merge: the newest version is read, since the refusal has only the differences. */
async function mergeOf(error: HostError, agent: Row, base: Row | null, mine: Row): Promise<MergeState> {
  const newest = await call("GET", pathOf(agent));
  return {
    base,
    mine,
    theirs: constitutionIn(newest),
    version: Number(newest.version),
    by: String(error.details.changed_by ?? newest.changed_by ?? "another author"),
    at: Number(error.details.changed_at ?? newest.updated_at ?? 0),
  };
}

// --- the live constitution -------------------------------------------------------------------------------------------

export function LiveEditor({ agent, canManage, onChange }: AgentEditProps) {
  const [base, setBase] = useState(() => constitutionIn(agent));
  const [version, setVersion] = useState(Number(agent.version));
  const [value, setValue] = useState(base);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [merge, setMerge] = useState<MergeState | null>(null);
  const [note, setNote] = useState("");

  const save = async (constitution: Row, expected: number, why: string) => {
    setBusy(true);
    setRefusal(null);
    setNote(why);
    try {
      const saved = await call("PATCH", pathOf(agent), { body: { ...toSend(constitution), note: why, expected_version: expected } });
      const isPinned = saved.pinned_version !== undefined && saved.pinned_version !== saved.version;
      const next = constitutionIn(saved);
      setBase(next);
      setValue(next);
      setVersion(Number(saved.version));
      toast(`Version ${String(saved.version)} was saved.${isPinned ? ` Calls still go to version ${String(saved.pinned_version)}, which is pinned.` : ""}`);
      onChange();
    } catch (error) {
      if (isStale(error)) setMerge(await mergeOf(error, agent, base, toSend(constitution)));
      else setRefusal(refusalOf(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <ConstitutionEditor
        base={base} value={value} onChange={setValue} refusal={refusal} action="Save as a new version" busy={isBusy ? "Saving…" : ""} hasNote
        isReadOnly={!canManage} onSave={(why) => void save(value, version, why)}
      />
      {merge && (
        <MergeDialog
          state={merge} onClose={() => setMerge(null)}
          onMerge={(merged) => {
            setMerge(null);
            setBase(merge.theirs);
            setValue(merged);
            setVersion(merge.version);
            void save(merged, merge.version, note);
          }}
        />
      )}
    </>
  );
}

// --- the draft -------------------------------------------------------------------------------------------------------

interface Draft {
  a2a_name: string;
  base_version: number;
  current_version: number;
  updated_at: number;
  constitution: Row;
}

async function readDraft(agent: Row, signal: AbortSignal): Promise<Draft | null> {
  try {
    return await call<Draft>("GET", `${pathOf(agent)}/draft`, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

export function DraftEditor({ agent, canManage, onChange }: AgentEditProps) {
  const draft = useLoad((signal) => readDraft(agent, signal), [agent.id]);
  const [value, setValue] = useState<Row | null>(null);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const [busy, setBusy] = useState("");
  const [note, setNote] = useState("");
  const [merge, setMerge] = useState<MergeState | null>(null);
  const kept = draft.value;
  useEffect(() => setValue(kept ? kept.constitution : null), [kept]);

  const run = async (words: string, work: () => Promise<void>) => {
    setBusy(words);
    setRefusal(null);
    try {
      await work();
    } catch (error) {
      if (isStale(error)) setMerge(await mergeOf(error, agent, await baseOf(agent, kept), value ?? {}));
      else setRefusal(refusalOf(error));
    } finally {
      setBusy("");
    }
  };
  const store = async (constitution: Row, baseVersion: number) =>
    draft.set(await call<Draft>("POST", `${pathOf(agent)}/draft`, { body: { ...toSend(constitution), base_version: baseVersion } }));
  const save = () =>
    run("Saving…", async () => {
      await store(value!, kept?.base_version ?? Number(agent.version));
      toast("The draft was saved. Only you can call it.");
    });
  const publish = () =>
    run("Publishing…", async () => {
      const saved = await call("POST", `${pathOf(agent)}/draft/publish`, { body: { note } });
      toast(`The draft is now version ${String(saved.version)}.`);
      draft.reload();
      onChange();
    });
  const remove = async () => {
    if (!(await confirm({ title: "Delete your draft?", text: "It cannot be brought back. The agent stays as it is.", action: "Delete", isDangerous: true }))) return;
    await call("DELETE", `${pathOf(agent)}/draft`).then(() => (toast("The draft was deleted."), draft.reload()), (error: unknown) => toastError(error));
  };

  if (draft.error) return <Problem error={draft.error} retry={draft.reload} />;
  if (draft.isLoading && !kept) return <Progress text="Reading your draft…" />;
  if (!value) {
    return (
      <EmptyState
        title="You have no draft of this agent"
        actions={canManage && <Button onClick={() => setValue(constitutionIn(agent))}>Begin with version {String(agent.version)}</Button>}
      >
        A draft is a constitution that only you call, until you publish it.
      </EmptyState>
    );
  }
  const isUnsaved = !kept || JSON.stringify(toSend(value)) !== JSON.stringify(kept.constitution);
  return (
    <>
      {kept && (
        <div class="draft-head">
          <p>
            Saved <Time at={new Date(kept.updated_at * 1000).toISOString()} />, made from version {kept.base_version}.
            {kept.base_version !== kept.current_version && <strong> The agent has version {kept.current_version} now: publishing asks you to merge.</strong>}
            {" "}Call it over A2A as <code>{kept.a2a_name}</code>.
          </p>
          <div class="draft-publish">
            <TextInput label="Note of the version" value={note} onInput={setNote} />
            <Button kind="primary" disabled={isUnsaved} busy={busy || false} onClick={() => void publish()}>Publish</Button>
            <Button onClick={() => void remove()}>Delete the draft</Button>
          </div>
          {isUnsaved && <p class="dim">Save the draft before you publish it.</p>}
        </div>
      )}
      <ConstitutionEditor
        key={kept?.updated_at ?? 0} base={kept?.constitution ?? constitutionIn(agent)} value={value} onChange={setValue} refusal={refusal}
        action="Save the draft" busy={busy} isReadOnly={!canManage} onSave={() => void save()}
      />
      {merge && (
        <MergeDialog
          state={merge} onClose={() => setMerge(null)}
          onMerge={(merged) => {
            setMerge(null);
            void run("Publishing…", async () => {
              await store(merged, merge.version);
              await publish();
            });
          }}
        />
      )}
    </>
  );
}

/** The constitution that a draft was made from; null if that version is not kept any more. */
async function baseOf(agent: Row, draft: Draft | null | undefined): Promise<Row | null> {
  if (!draft) return null;
  try {
    const version = await call<{ constitution: Row }>("GET", `${pathOf(agent)}/versions/${draft.base_version}`);
    return constitutionIn(version.constitution);
  } catch {
    return null;
  }
}
