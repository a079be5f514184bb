// Budgets: what is spent, reserved and left of each, and the limits that the caller sets. Operators set theirs for a tenant.

import { useState } from "preact/hooks";
import { countText } from "../../text/safe.ts";
import { Button, EmptyState, LoadState, Name, Table, Time, useLoad } from "../../ui/index.ts";
import { ActionDialog } from "./action_dialog.tsx";
import { ShareBar } from "./bars.tsx";
import { budgetAction, type BudgetsView, type BudgetView, type Limit } from "./budgets.ts";
import { formatMoney } from "./formats.ts";
import { Head } from "./head.tsx";
import { call } from "./host_call.ts";
import type { Rights, Row } from "./section.ts";

export function BudgetsPage({ rights }: { rights: Rights }) {
  const isOperator = rights.is_operator;
  const path = isOperator ? `/v1/admin/tenants/${encodeURIComponent(rights.tenant ?? "")}/budgets` : "/v1/budgets";
  const budgets = useLoad((signal) => call<BudgetsView & Row>("GET", path, { signal }), [path]);
  const [isEditing, setEditing] = useState(false);
  const view = budgets.value;
  return (
    <>
      <Head
        title="Budgets" onReload={budgets.reload}
        about="A budget stops agents before the model call that would break it. The lowest of the operator's and the tenant's holds."
      >
        {view && (isOperator || rights.scopes.includes("manage")) && <Button small icon="edit" onClick={() => setEditing(true)}>Set budgets</Button>}
      </Head>
      <LoadState of={budgets} text="Reading budgets…" />
      {view && <BudgetTable view={view} />}
      {view && isEditing && (
        <ActionDialog
          run={{ section: { path, noun: "budgets" }, action: budgetAction(isOperator ? "operator" : "own"), row: view }}
          onClose={() => setEditing(false)} onDone={budgets.reload}
        />
      )}
    </>
  );
}

function BudgetTable({ view }: { view: BudgetsView }) {
  const { currency } = view;
  return (
    <>
      <p class="operate-summary">{view.request ? `Each request may use ${limitText(view.request, currency)}.` : "Requests have no budget of their own."}</p>
      <Table
        caption="Budgets that hold" rows={view.budgets} rowKey={(row) => `${row.scope} ${row.agent ?? ""} ${row.period}`}
        empty={<EmptyState title="No budget is set">Without budgets, agents may spend as much as quotas allow.</EmptyState>}
        columns={[
          { title: "Of", isHeading: true, render: (row) => (row.agent ? <code><Name text={row.agent} /></code> : "the tenant") },
          { title: "Period", render: (row) => row.period },
          { title: "Limit", render: (row) => limitText(row.limit, currency) },
          { title: "Used", render: (row) => <Used row={row} currency={currency} /> },
          { title: "Left", render: (row) => limitText({ tokens: row.left.tokens ?? undefined, cost: row.left.cost ?? undefined }, currency) },
          { title: "Ends", render: (row) => (row.ends_at ? <Time at={row.ends_at} /> : "never"), isMinor: true },
        ]}
      />
    </>
  );
}

function limitText(limit: { [Member in keyof Limit]: Limit[Member] | undefined }, currency: string): string {
  return [
    limit.tokens === undefined ? "" : `${countText(limit.tokens)} tokens`,
    limit.cost === undefined ? "" : formatMoney(limit.cost, currency),
  ].filter(Boolean).join(" and ");
}

function Used({ row: { limit, spent, reserved }, currency }: { row: BudgetView; currency: string }) {
  const kinds = (["tokens", "cost"] as const).filter((kind) => limit[kind] !== undefined);
  return (
    <>
      {kinds.map((kind) => {
        const text = limitText({ [kind]: spent[kind] }, currency);
        const waiting = Number(reserved[kind]) > 0 ? `, ${limitText({ [kind]: reserved[kind] }, currency)} reserved` : "";
        return (
          <div key={kind} class="share-row">
            <ShareBar used={Number(spent[kind])} reserved={Number(reserved[kind])} limit={Number(limit[kind])} text={`${text} of the limit`} isLimit />
            <span>{text}{waiting}</span>
          </div>
        );
      })}
    </>
  );
}
