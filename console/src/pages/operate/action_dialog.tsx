// Runs an action of a section: asks and says what will happen, sends the form, shows a new token once, and what was done.
// If something was changed meanwhile, it shows what, and the user chooses.

import { useState } from "preact/hooks";
import { messageOf } from "../../api/http.ts";
import { Button, CopyButton, Dialog, TextInput, toast, toastError } from "../../ui/index.ts";
import { changesBetween, type MemberChange } from "./diff.ts";
import { DiffView } from "./diff_view.tsx";
import { FormFields } from "./form_fields.tsx";
import { call, HostError } from "./host_call.ts";
import { bodyOf, fieldAt, fill, initialValues, pathFor, problemsOf, titleOf, valueAt, type Action, type Row, type Section } from "./section.ts";

export interface ActionRun {
  section: Pick<Section, "path" | "noun">;
  action: Action;
  row: Row;
}

/** Send the request of an action. Raises HostError or ApiError. */
export async function sendAction({ section, action, row }: ActionRun, values: Row = {}): Promise<Row> {
  const { method = "POST" } = action;
  const url = pathFor(section, action.path, row, values);
  const headers: Record<string, string> = {};
  if (action.revision === "header" && row.revision !== undefined) headers["If-Match"] = `"${String(row.revision)}"`;
  if (values.file instanceof File) return call(method, url, { body: values.file, query: { name: String(values.name ?? "") } });
  return call(method, url, method === "DELETE" ? { headers } : { headers, body: bodyOf(action, row, values) });
}

function doneText({ section, action, row }: ActionRun, reply: Row): string {
  return fill(action.done, section.noun, { ...row, ...reply });
}

/** Begin an action: at once if it needs no dialog; otherwise `ask` shows one. */
export function beginAction(run: ActionRun, ask: (run: ActionRun) => void, onDone: (reply: Row) => void): void {
  const { fields, warning, typed, label } = run.action;
  if (fields?.length || warning || typed) ask(run);
  else {
    sendAction(run).then(
      (reply) => {
        toast(doneText(run, reply));
        onDone(reply);
      },
      (error: unknown) => toastError(error, label),
    );
  }
}

interface Conflict {
  changes: MemberChange[];
  row: Row;
}

export function ActionDialog({ run, onClose, onDone }: { run: ActionRun; onClose: () => void; onDone: (reply: Row) => void }) {
  const { section, action } = run;
  const fields = action.fields ?? [];
  const [row, setRow] = useState(run.row);
  const [values, setValues] = useState(() => initialValues(fields, run.row));
  const [typed, setTyped] = useState("");
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [made, setMade] = useState<Row | null>(null);
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const expected = action.typed && String(row[action.typed]);
  const isReady = !expected || typed === expected;

  const refuse = async (error: unknown) => {
    const field = error instanceof HostError ? fieldAt(fields, error.path) : undefined;
    if (field && error instanceof HostError) setProblems({ [field.name]: error.reason });
    else setFailure(messageOf(error));
    if (error instanceof HostError && [409, 412].includes(error.status)) setConflict(await conflictOf({ section, action, row }));
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!isReady || isBusy) return;
    const found = problemsOf(fields, values);
    setProblems(found);
    setFailure("");
    if (Object.keys(found).length) return;
    setBusy(true);
    try {
      const reply = await sendAction({ section, action, row }, values);
      onDone(reply);
      if (action.hasToken) setMade(reply);
      else {
        toast(doneText({ section, action, row }, reply));
        onClose();
      }
    } catch (error) {
      await refuse(error);
    } finally {
      setBusy(false);
    }
  };
  const settle = (next: Row, said: string) => {
    setRow(next);
    setConflict(null);
    setFailure(said);
  };

  if (made) return <TokenDialog text={doneText({ section, action, row }, made)} token={String(made.token)} onClose={onClose} />;
  const isLong = fields.length > 6;
  return (
    <Dialog title={titleOf(action, section.noun, row)} onClose={onClose} wide={isLong || conflict !== null}>
      <form class={isLong ? "operate-form operate-form-wide" : "operate-form"} onSubmit={(event) => void submit(event)}>
        {action.warning && <p class="operate-warning">{action.warning}</p>}
        <FormFields fields={fields} values={values} problems={problems} onChange={(name, value) => setValues((before) => ({ ...before, [name]: value }))} />
        {expected && <TextInput label={`Type ${expected} to go on`} value={typed} onInput={setTyped} isCode autofocus={!fields.length} />}
        {failure && <p class="field-error" role="alert">{failure}</p>}
        {conflict && (
          <section class="operate-conflict" aria-label="What has changed meanwhile">
            <p>This has changed since you opened it:</p>
            <DiffView changes={conflict.changes} />
            <div class="operate-buttons">
              <Button small onClick={() => (setValues(initialValues(fields, conflict.row)), settle(conflict.row, ""))}>Take the present values</Button>
              <Button small onClick={() => settle(conflict.row, `Your values are kept. Press ${action.label} again to put them in place of the others.`)}>Keep mine</Button>
            </div>
          </section>
        )}
        <div class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind={action.isDanger ? "danger" : "primary"} disabled={!isReady} busy={isBusy && `${action.label}…`}>{action.label}</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** What has changed meanwhile; null if the thing has no revision, or cannot be read. */
async function conflictOf({ section, action, row }: ActionRun): Promise<Conflict | null> {
  if (!action.revision) return null;
  try {
    const now = await call("GET", pathFor(section, action.path, row));
    const pick = (from: Row) => Object.fromEntries((action.fields ?? []).map((field) => [field.label, field.from && valueAt(from, field.from)]));
    return { changes: changesBetween(pick(row), pick(now)), row: now };
  } catch {
    return null;
  }
}

/** A token that the host shows once. */
function TokenDialog({ text, token, onClose }: { text: string; token: string; onClose: () => void }) {
  return (
    <Dialog title="Copy the token now" onClose={onClose} footer={<Button onClick={onClose}>Done</Button>}>
      <p>{text}</p>
      <p class="operate-warning">The token is shown only this time. The host keeps nothing from which it could be shown again.</p>
      <code class="operate-secret" tabIndex={0}>{token}</code>
      <div><CopyButton text={token} label="Copy the token" /></div>
    </Dialog>
  );
}
