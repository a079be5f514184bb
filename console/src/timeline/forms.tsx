// An event or a request as each release of A2A and each binding writes it, chosen by version and binding.

import { useState } from "preact/hooks";
import type { EventForm, RequestForm, TaskRequest } from "../api/types.ts";
import { Code } from "../content/code.tsx";
import { jsonText } from "../content/data_rows.ts";
import { safeText } from "../text/safe.ts";
import { EmptyState } from "../ui/index.ts";
import { Choice } from "./choice.tsx";

const MAX_FORM = 200_000;
const BINDINGS: { [binding: string]: string } = { JSONRPC: "JSON-RPC", "HTTP+JSON": "REST", REST: "REST", GRPC: "gRPC" };

interface Form {
  version: string;
  binding: string;
  title: string;
  body: unknown;
  reason?: string;
}

/** Choose one of some forms by version and binding; the choice is kept while other events are looked at. */
function useForm<Kind extends Form>(forms: readonly Kind[]): { form: Kind | undefined; choices: preact.ComponentChildren } {
  const [version, setVersion] = useState("1.0");
  const [binding, setBinding] = useState("JSONRPC");
  const versions = [...new Set(forms.map((form) => form.version))];
  const bindings = [...new Set(forms.map((form) => form.binding))];
  const chosenVersion = versions.includes(version) ? version : (versions.at(-1) ?? "");
  const chosenBinding = bindings.includes(binding) ? binding : (bindings[0] ?? "");
  const find = (wantedVersion: string, wantedBinding: string) =>
    forms.find((form) => form.version === wantedVersion && form.binding === wantedBinding);
  const choices = (
    <div class="row">
      <Choice
        label="Version of A2A" value={chosenVersion} onChange={setVersion}
        options={versions.map((each) => ({ value: each, title: each, isDim: isMissing(find(each, chosenBinding)) }))}
      />
      <Choice
        label="Binding" value={chosenBinding} onChange={setBinding}
        options={bindings.map((each) => ({ value: each, title: BINDINGS[each] ?? each, isDim: isMissing(find(chosenVersion, each)) }))}
      />
    </div>
  );
  return { form: find(chosenVersion, chosenBinding), choices };
}

/** Whether there is nothing to show: a form may have a body and a reason why it cannot be sent. */
function isMissing(form: Form | undefined): boolean {
  return form === undefined || (!!form.reason && form.body === null);
}

/** An event in each dialect and binding. */
export function EventForms({ forms }: { forms: readonly EventForm[] }) {
  const { form, choices } = useForm(forms);
  return (
    <div class="stack">
      {choices}
      {form === undefined || form.reason
        ? <p class="dim">{safeText(form?.reason || "This release has no such binding.")}</p>
        : <FormText title={form.title} text={form.text ?? jsonText(form.body)} language={form.text === null ? "json" : ""} />}
    </div>
  );
}

type RequestView = "curl" | "python" | "http";

/** The request that began a task, in each dialect and binding, to copy as curl or Python. */
export function RequestForms({ request }: { request: TaskRequest | null }) {
  const { form, choices } = useForm<RequestForm>(request?.forms ?? []);
  const [view, setView] = useState<RequestView>("curl");
  if (request === null || request.forms.length === 0) {
    return <EmptyState title="No request is known" icon="wire">The log does not hold the message that caused this.</EmptyState>;
  }
  return (
    <div class="stack">
      <div class="row">
        {choices}
        <Choice<RequestView>
          label="Form of the request" value={view} onChange={setView}
          options={[{ value: "curl", title: "curl" }, { value: "python", title: "Python" }, { value: "http", title: "HTTP" }]}
        />
      </div>
      {(form === undefined || form.reason) && <p class="dim">{safeText(form?.reason || "This release has no such binding.")}</p>}
      {form && !isMissing(form) && <RequestText form={form} view={form.reason ? "http" : view} />}
      <p class="dim small">Credentials are left out: add yours before you run it.</p>
    </div>
  );
}

function RequestText({ form, view }: { form: RequestForm; view: RequestView }) {
  if (view === "curl") return form.curl ? <FormText title={form.title} text={form.curl} language="bash" /> : <p class="dim">curl cannot send this binding.</p>;
  if (view === "python") return <FormText title={form.title} text={form.python} language="python" />;
  const headers = Object.entries(form.headers).map(([name, value]) => `${name}: ${value}`);
  const text = [`${form.method} ${form.url}`, ...headers, "", form.body === null ? "" : jsonText(form.body)].join("\n");
  return <FormText title={form.title} text={text} language="http" />;
}

function FormText({ title, text, language }: { title: string; text: string; language: string }) {
  const isLong = text.length > MAX_FORM;
  return (
    <>
      <p class="dim small">{title}{isLong && `, the first ${MAX_FORM.toLocaleString("en-US")} of ${text.length.toLocaleString("en-US")} characters`}</p>
      <Code text={safeText(isLong ? text.slice(0, MAX_FORM) : text)} language={language} />
    </>
  );
}
