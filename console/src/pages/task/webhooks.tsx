// The webhooks of a task: what was delivered, what failed and why, and "send again".

import { useEffect, useState } from "preact/hooks";
import { api, path } from "../../api/http.ts";
import type { Webhook } from "../../api/types.ts";
import { countText, plural, safeLine } from "../../text/safe.ts";
import { Badge, Button, confirm, Dialog, EmptyState, Facts, LoadState, Name, TextInput, Time, toast, toastError, useLoad } from "../../ui/index.ts";

const STATES: Record<Webhook["state"], readonly [tone: "good" | "waiting" | "bad", word: string]> = {
  up_to_date: ["good", "Up to date"],
  waiting: ["waiting", "Waiting"],
  failing: ["bad", "Failing"],
  paused: ["bad", "Paused"],
  given_up: ["bad", "Given up"],
};

const LOOK_AGAIN_MS = 5_000;

export function Webhooks({ agent, id, events }: { agent: string; id: string; events: number }) {
  const url = path("tasks", id, "webhooks");
  const loaded = useLoad(
    (signal) => api.get<{ webhooks: Webhook[] }>(url, { query: { agent }, signal }), [agent, id, events],
  );
  const { value, reload } = loaded;
  const isPending = value?.webhooks.some((hook) => hook.state !== "up_to_date" && hook.state !== "given_up") ?? false;
  useEffect(() => {
    if (!isPending) return;
    const timer = setInterval(reload, LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [isPending]);
  if (!value) return <LoadState of={loaded} text="Loading webhooks…" />;
  if (value.webhooks.length === 0) {
    return (
      <EmptyState title="No webhooks" icon="send">
        A caller that wants to be called back sends a push notification configuration with its message, or with
        CreateTaskPushNotificationConfig.
      </EmptyState>
    );
  }
  return (
    <div class="webhooks">
      {value.webhooks.map((hook) => <WebhookCard key={hook.id} hook={hook} agent={agent} url={url} reload={reload} />)}
    </div>
  );
}

function WebhookCard({ hook, agent, url, reload }: { hook: Webhook; agent: string; url: string; reload: () => void }) {
  const [tone, word] = STATES[hook.state] ?? ["waiting", hook.state];
  const [isAsking, setAsking] = useState(false);
  const missing = Math.max(0, hook.last - hook.delivered);
  const send = async (after: number | null) => {
    setAsking(false);
    try {
      await api.post(`${url}${path(hook.id, "send")}`, after === null ? {} : { after }, { query: { agent } });
      toast(after === null ? "The events are being sent." : `The events after ${after} are being sent again.`);
      reload();
    } catch (failure) {
      toastError(failure, "Nothing was sent");
    }
  };
  const sendMissing = async () => {
    const what = hook.dead_letters > 0
      ? "All events from the first one on that was given up"
      : `${plural(missing, "event")} after number ${hook.delivered}`;
    const text = `${what} will be sent to ${safeLine(hook.url.slice(0, 200))} now.`;
    if (await confirm({ title: "Send what was not delivered?", text, action: "Send now" })) void send(null);
  };
  return (
    <article class="card webhook">
      <header class="task-part-head">
        <h2><Name text={hook.url} length={120} canExpand /></h2>
        <Badge tone={tone}>{word}</Badge>
      </header>
      <Facts
        facts={[
          ["Delivered", `up to event ${countText(hook.delivered)} of ${countText(hook.last)}`],
          ["Failures", hook.failures > 0 ? `${countText(hook.failures)} in a row` : "none"],
          ["Last error", hook.last_error ? <span class="webhook-error"><Name text={hook.last_error} length={300} canExpand /></span> : null],
          ["Last attempt", hook.last_attempt_at ? <Time at={hook.last_attempt_at} /> : null],
          ["Paused since", hook.paused_since ? <Time at={hook.paused_since} /> : null],
          ["Given up", hook.dead_letters > 0 ? plural(hook.dead_letters, "event") : null],
          ["Next attempt", hook.next_attempt_at ? <Time at={hook.next_attempt_at} /> : null],
          ["Version of A2A", hook.version],
          ["Authentication", [hook.authentication, hook.has_token ? "token" : ""].filter(Boolean).join(", ") || "none"],
        ]}
      />
      <div class="row">
        {missing + hook.dead_letters > 0 && <Button small onClick={sendMissing}>Send undelivered now</Button>}
        <Button small onClick={() => setAsking(true)}>Send again from…</Button>
      </div>
      {isAsking && <SendAgain hook={hook} onClose={() => setAsking(false)} onSend={send} />}
    </article>
  );
}

function SendAgain({ hook, onClose, onSend }: { hook: Webhook; onClose: () => void; onSend: (after: number) => void }) {
  const [typed, setTyped] = useState("0");
  const after = /^\d+$/.test(typed) ? Number(typed) : NaN;
  const isValid = after >= 0 && after < hook.last;
  const error = isValid ? undefined : `Enter a number from 0 to ${hook.last - 1}.`;
  return (
    <Dialog
      title="Send events again"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={!isValid} onClick={() => onSend(after)}>Send again</Button>
        </>
      }
    >
      <p>The receiver gets events a second time. It should know them by their numbers.</p>
      <TextInput label="Send the events after number" type="number" value={typed} onInput={setTyped} error={error} />
      {isValid && <p class="dim">{plural(hook.last - after, "event")} at most, up to number {countText(hook.last)}.</p>}
    </Dialog>
  );
}
