// Logging in at an agent, in place: a form, a window of the authorization server, or a code for another device.
// The server of the console keeps the credentials; this page never sees a token of OAuth.

import { useEffect, useState } from "preact/hooks";
import { logInAt, logOutAt } from "../api/agents.ts";
import type { AgentDetails, LoginReply, Scheme } from "../api/types.ts";
import { safeUrl, shortLine } from "../text/safe.ts";
import { Badge, Button, CopyButton, Problem, Progress, Tabs, toast, toastError } from "../ui/index.ts";
import { SchemeForm, schemeTitle } from "./scheme_form.tsx";

const POLL_SECONDS = 3;
/** How long the page waits for the window of the authorization server. */
const PATIENCE_MS = 10 * 60_000;

export interface AgentLoginProps {
  details: AgentDetails;
  /** The login may have changed: read the agent again. */
  onChange: () => void;
}

type Waiting = { scheme: string } & (Extract<LoginReply, { state: "redirect" }> | Extract<LoginReply, { state: "device" }>);

export function AgentLogin({ details, onChange }: AgentLoginProps) {
  const { agent, schemes, login } = details;
  const usable = schemes.filter((scheme) => scheme.flow !== "unsupported");
  const [chosen, choose] = useState(login.scheme || usable[0]?.name || schemes[0]?.name || "");
  const [waiting, setWaiting] = useState<Waiting | null>(null);
  useEffect(() => {
    if (login.is_logged_in) setWaiting(null);
  }, [login.is_logged_in]);
  if (login.is_logged_in) {
    const leave = () => logOutAt(agent.id).then(onChange, toastError);
    return (
      <div class="row">
        <Badge tone="good">Logged in</Badge>
        <span class="dim">with {shortLine(login.scheme, 60)}. The credentials go to this agent only.</span>
        <Button small onClick={leave}>Log out</Button>
      </div>
    );
  }
  if (!schemes.length) return <p class="dim">The agent asks for no login.</p>;
  if (waiting) return <WaitForLogin agent={agent.id} waiting={waiting} onDone={onChange} onStop={() => setWaiting(null)} />;
  const scheme = schemes.find((each) => each.name === chosen) ?? schemes[0]!;
  const submit = async (values: Record<string, string>, scopes: string[]) => {
    const reply = await logInAt(agent.id, { scheme: scheme.name, values, scopes });
    if (reply.state === "redirect" || reply.state === "device") setWaiting({ ...reply, scheme: scheme.name });
    else if (reply.state === "done") {
      toast("Logged in");
      onChange();
    }
  };
  const form = <SchemeForm key={scheme.name} scheme={scheme} action={actionOf(scheme)} onSubmit={submit} />;
  const forms = schemes.length === 1 ? form : (
    <Tabs
      label="How to log in" selected={scheme.name} onSelect={choose}
      tabs={schemes.map((each) => ({ id: each.name, title: `${schemeTitle(each)} · ${shortLine(each.name, 24)}` }))}
    >
      {form}
    </Tabs>
  );
  if (login.is_required) return <div class="stack login-in-place"><p>The agent asks for a login before it answers.</p>{forms}</div>;
  return <details class="login-in-place"><summary>Log in, although the agent answers without</summary><div class="stack">{forms}</div></details>;
}

function actionOf(scheme: Scheme): string {
  if (scheme.flow === "redirect") return "Log in in a new window";
  return scheme.flow === "device" ? "Get a code" : "Log in";
}

interface WaitProps {
  agent: string;
  waiting: Waiting;
  onDone: () => void;
  onStop: () => void;
}

/** Waits for what the user does elsewhere: in a window, or on another device. */
function WaitForLogin({ agent, waiting, onDone, onStop }: WaitProps) {
  const [problem, setProblem] = useState<unknown>(null);
  const url = safeUrl(waiting.url);
  useEffect(() => {
    if (waiting.state !== "device") return followWindow(onDone);
    let isOver = false;
    let timer: ReturnType<typeof setTimeout>;
    const poll = async (seconds: number): Promise<void> => {
      try {
        const reply = await logInAt(agent, { scheme: waiting.scheme, poll: true });
        if (isOver) return;
        if (reply.state === "done") {
          toast("Logged in");
          return onDone();
        }
        const pause = "interval" in reply && reply.interval ? reply.interval : seconds;
        timer = setTimeout(() => void poll(pause), pause * 1000);
      } catch (error) {
        if (!isOver) setProblem(error);
      }
    };
    timer = setTimeout(() => void poll(waiting.interval), waiting.interval * 1000);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  if (problem) return <Problem title="The login has failed." error={problem} retry={onStop} />;
  if (!url) return <Problem title="The login has failed." error={new Error("The authorization server has named an address that is not a web page.")} retry={onStop} />;
  return (
    <div class="stack">
      {waiting.state === "device" ? (
        <>
          <p>Open <a href={url.href} target="_blank" rel="noopener noreferrer">{shortLine(url.href, 80)}</a> on any device, and enter this code:</p>
          <p class="row"><code class="device-code">{shortLine(waiting.code, 40)}</code><CopyButton text={waiting.code} label="Copy the code" /></p>
        </>
      ) : (
        <p>
          Log in at <strong>{shortLine(url.host, 80)}</strong>: <a class="button button-primary" href={url.href} target="_blank" rel="noopener noreferrer">Open the login window</a>
        </p>
      )}
      <div class="row"><Progress small text="Waiting until you have logged in…" /><Button kind="quiet" small onClick={onStop}>Cancel</Button></div>
    </div>
  );
}

/**
 * Look at the login again when the user comes back, and every few seconds. The window's own state tells nothing: the
 * server's opener policy cuts pages of other origins off from this one.
 */
function followWindow(look: () => void): () => void {
  const began = Date.now();
  const timer = setInterval(() => {
    if (Date.now() - began > PATIENCE_MS) clearInterval(timer);
    else if (document.visibilityState === "visible") look();
  }, POLL_SECONDS * 1000);
  addEventListener("focus", look);
  return () => {
    clearInterval(timer);
    removeEventListener("focus", look);
  };
}
