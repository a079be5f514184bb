// Budgets: what the host says of them, and the form that sets them, as an action like those of sections.

import type { Action, Field } from "./section.ts";

export interface Limit {
  tokens?: number;
  cost?: string;
}

const PERIODS = ["day", "month", "total"] as const;

export interface BudgetView {
  scope: "tenant" | "agent";
  agent: string | null;
  period: (typeof PERIODS)[number];
  limit: Limit;
  spent: { tokens: number; cost: string };
  reserved: { tokens: number; cost: string };
  left: { tokens: number | null; cost: string | null };
  ends_at: string | null;
}

export interface BudgetsView {
  currency: string;
  revision: number;
  request: Limit | null;
  budgets: BudgetView[];
}

/** The action that sets the budgets of the operator or those of the tenant: all of them, in place of those before. */
export function budgetAction(setter: "operator" | "own"): Action {
  const limits = (member: string, label: string): Field[] => [
    { name: `${member}.tokens`, label: `${label}: tokens`, kind: "number", from: `${setter}.${member}.tokens` },
    { name: `${member}.cost`, label: `${label}: cost`, from: `${setter}.${member}.cost` },
  ];
  return {
    label: "Set",
    title: setter === "operator" ? "Set the budgets of the operator" : "Set the budgets of the tenant",
    method: "PUT",
    path: "",
    fields: [
      ...PERIODS.flatMap((period) => limits(`tenant.${period}`, period === "total" ? "Tenant in total" : `Tenant each ${period}`)),
      ...limits("request", "Each request"),
      { name: "agents", label: "Agents", kind: "json", from: `${setter}.agents`, help: '{"writer": {"day": {"cost": "5.50"}}}. Empty fields set no limit; 0 allows nothing.' },
    ],
    revision: "body",
    done: "The budgets were set.",
  };
}
