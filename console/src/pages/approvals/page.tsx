// The inbox of steps that wait for a decision, and what was decided. A decision cannot be taken back, so it asks first.

import { useEffect, useRef, useState } from "preact/hooks";
import { waitingApprovals } from "../../api/approvals.ts";
import { session } from "../../api/session.ts";
import { links, query, setQuery } from "../../router.ts";
import "../../styles/tasks.css";
import { countText, plural, safeText, shortLine } from "../../text/safe.ts";
import { Badge, Button, confirm, EmptyState, Facts, Id, LoadState, Name, Page, Problem, Tabs, Tag, TextInput, Time, toast, useLoad } from "../../ui/index.ts";
import { type Approval, decide, MAX_COMMENT, momentOf, readApproval, readApprovals, refusalText, type Verdict } from "./approval.ts";
import { ChooseTenant, lacksTenant } from "../no_agents.tsx";

type Shown = "pending" | "decided";
const LOOK_AGAIN_MS = 15_000;

export default function ApprovalsPage() {
  const chosen = query.value.get("id");
  const shown: Shown = query.value.get("state") === "decided" ? "decided" : "pending";
  const waiting = waitingApprovals.value;
  if (lacksTenant()) return <Page title="Approvals"><ChooseTenant /></Page>;
  if (chosen) return <OneApproval id={chosen} />;
  return (
    <Page title="Approvals">
      <Tabs
        label="Approvals" selected={shown} onSelect={(id) => setQuery({ state: id === "decided" ? id : null })}
        tabs={[{ id: "pending", title: "Waiting", ...(waiting > 0 ? { badge: countText(waiting) } : {}) }, { id: "decided", title: "Decided" }]}
      >
        <Inbox key={shown} shown={shown} waiting={waiting} />
      </Tabs>
    </Page>
  );
}

function mayDecide(): boolean {
  return session.value?.caller?.scopes.includes("approve") ?? false;
}

function Inbox({ shown, waiting }: { shown: Shown; waiting: number }) {
  const [more, setMore] = useState<Approval[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const first = useLoad(async (signal) => {
    const page = await readApprovals(shown, null, signal);
    setMore([]);
    setCursor(page.next_cursor);
    return page.approvals;
  }, [shown, waiting]);
  useEffect(() => {
    // Expired and withdrawn ones leave without a change of the number, if others come at the same time.
    const timer = setInterval(() => document.visibilityState === "visible" && first.reload(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  const loadMore = async () => {
    try {
      const page = await readApprovals(shown, cursor, new AbortController().signal);
      setMore([...more, ...page.approvals]);
      setCursor(page.next_cursor);
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
  };
  if (!first.value) return <LoadState of={first} text="Loading approvals…" title="Approvals cannot be shown" />;
  const approvals = [...first.value, ...more];
  if (approvals.length === 0) return <NoApprovals shown={shown} />;
  return (
    <div class="approvals">
      {shown === "pending" && !mayDecide() && <p class="task-waits">You may read approvals, not decide: your token lacks the scope “approve”.</p>}
      {approvals.map((approval) => <ApprovalCard key={approval.id} approval={approval} onDecided={first.reload} />)}
      {failure !== null && <Problem error={failure} />}
      {cursor !== null && <Button onClick={loadMore}>Show more</Button>}
    </div>
  );
}

function NoApprovals({ shown }: { shown: Shown }) {
  if (shown === "decided") return <EmptyState title="Nothing was decided yet" icon="approvals">Decisions appear here with who made them, and when.</EmptyState>;
  return (
    <EmptyState title="Nothing waits for a decision" icon="approvals">
      Rules of an agent or a tenant say which steps wait: a command, a delegation, a tool, or a model call that costs more than a
      limit. They stand in the agent’s constitution, in <code>approvals</code>.
    </EmptyState>
  );
}

/** One approval that a link names: from a tree of runs, or from a message to the approver. */
function OneApproval({ id }: { id: string }) {
  const loaded = useLoad((signal) => readApproval(id, signal), [id]);
  return (
    <Page title="Approval" trail={[["Approvals", links.approvals()]]}>
      <LoadState of={loaded} text="Loading the approval…" />
      {loaded.value && <div class="approvals"><ApprovalCard approval={loaded.value} onDecided={loaded.reload} /></div>}
    </Page>
  );
}

const STATES: Record<Approval["state"], readonly [tone: "waiting" | "good" | "bad" | "neutral", word: string]> = {
  pending: ["waiting", "Waiting"],
  approved: ["good", "Approved"],
  denied: ["bad", "Denied"],
  expired: ["neutral", "Expired"],
  withdrawn: ["neutral", "Withdrawn"],
};

function ApprovalCard({ approval, onDecided }: { approval: Approval; onDecided: () => void }) {
  const [tone, word] = STATES[approval.state] ?? ["neutral", approval.state];
  const expires = momentOf(approval.expires_at);
  return (
    <article class="card approval" aria-label={shortLine(approval.action, 120)}>
      <header class="task-part-head">
        <h2 class="wrap"><bdi>{shortLine(approval.action, 300)}</bdi></h2>
        <Badge tone={tone}>{word}</Badge>
      </header>
      {approval.detail && (
        <pre class="approval-detail" tabIndex={0} aria-label="What will happen">{safeText(approval.detail)}</pre>
      )}
      {approval.hidden_characters > 0 && <p class="dim">{plural(approval.hidden_characters, "more character")} of the arguments are not shown; the task has them.</p>}
      <Facts
        facts={[
          ["Agent", <a href={links.agent(approval.agent)}><Name text={approval.agent} length={60} /></a>],
          ["Rule", <>{approval.on}{approval.names.length > 0 && <> <span class="dim">{shortLine(approval.names.join(", "), 200)}</span></>} {approval.four_eyes && <Tag title="The sender of the request may not decide">four eyes</Tag>}</>],
          ["Costs at most", approval.cost],
          ["Tokens at most", approval.tokens > 0 ? countText(approval.tokens) : null],
          ["Requested", <><Time at={momentOf(approval.requested_at)} /> by <Name text={approval.requested_by} length={60} none="an unknown caller" /></>],
          ["Task", <Chain approval={approval} />],
          ["Without a decision", approval.state === "pending" && expires !== null ? <>{approval.default === "approve" ? "approved" : "denied"} <Time at={expires} /></> : null],
          ["Decided", approval.decided_at > 0 ? <><Time at={momentOf(approval.decided_at)} as="full" />{approval.decided_by && <> by <Name text={approval.decided_by} length={60} /></>}</> : null],
          ["Comment", approval.comment ? <bdi>{safeText(approval.comment)}</bdi> : null],
        ]}
      />
      {approval.state === "pending" && mayDecide() && <DecisionForm approval={approval} onDecided={onDecided} />}
    </article>
  );
}

/** The tasks that wait, from the user's own on. */
function Chain({ approval }: { approval: Approval }) {
  const others = approval.chain.filter((link) => link.request_id !== approval.request_id);
  return (
    <span class="row">
      {others.map((link) => (
        <span key={link.request_id}><a href={links.task(link.agent, link.request_id)}>{shortLine(link.agent, 30)} <Id text={link.request_id} /></a> <span aria-hidden="true">›</span></span>
      ))}
      <a href={links.task(approval.agent, approval.request_id, { view: "tree" })}>{shortLine(approval.agent, 30)} <Id text={approval.request_id} /></a>
    </span>
  );
}

function DecisionForm({ approval, onDecided }: { approval: Approval; onDecided: () => void }) {
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState<Verdict | null>(null);
  const [refusal, setRefusal] = useState("");
  const isGone = useRef(false);
  useEffect(() => () => void (isGone.current = true), []);
  const send = async (verdict: Verdict) => {
    const isYes = verdict === "approve";
    const text = `${shortLine(approval.action, 200)}. ${isYes ? "The agent takes this step at once." : "The agent is told so, and goes on without this step."} This cannot be undone.`;
    if (!(await confirm({ title: isYes ? "Approve this step?" : "Deny this step?", text, action: isYes ? "Approve" : "Deny", isDangerous: !isYes }))) return;
    setBusy(verdict);
    setRefusal("");
    try {
      await decide(approval.id, verdict, comment.trim());
      toast(isYes ? "Approved." : "Denied.");
    } catch (error) {
      if (!isGone.current) setRefusal(refusalText(error));
    }
    if (isGone.current) return;
    setBusy(null);
    onDecided();
  };
  return (
    <div class="approval-form">
      <TextInput
        label="Comment" hint="The agent and the audit see it. It may be empty." rows={2} value={comment} onInput={(text) => setComment(text.slice(0, MAX_COMMENT))}
      />
      {refusal && <Problem error={new Error(refusal)} title="The decision was refused" />}
      <div class="row">
        <Button kind="primary" busy={busy === "approve" && "Approving…"} onClick={() => void send("approve")}>Approve…</Button>
        <Button kind="danger" busy={busy === "deny" && "Denying…"} onClick={() => void send("deny")}>Deny…</Button>
      </div>
    </div>
  );
}
