// Approvals as the native API of a host has them (docs/approvals.md), and what its refusals mean in plain words.

import { ApiError, native, path } from "../../api/http.ts";

export interface Approval {
  id: string;
  state: "pending" | "approved" | "denied" | "expired" | "withdrawn";
  request_id: string;
  agent: string;
  on: string;
  names: string[];
  action: string;
  detail: string;
  hidden_characters: number;
  cost: string | null;
  tokens: number;
  text: string;
  requested_by: string;
  /** Seconds since 1970, as all times here; 0: none, or not yet. */
  requested_at: number;
  expires_at: number;
  default: Verdict;
  four_eyes: boolean;
  chain: { request_id: string; agent: string }[];
  decided_by: string;
  decided_at: number;
  comment: string;
}

export type Verdict = "approve" | "deny";

export interface ApprovalPage {
  approvals: Approval[];
  next_cursor: string | null;
}

export const MAX_COMMENT = 1_000;

/** A page of what waits, or of what is over. Raises ApiError. */
export function readApprovals(state: "pending" | "decided", cursor: string | null, signal: AbortSignal): Promise<ApprovalPage> {
  return native.get<ApprovalPage>("/v1/approvals", { query: { state, cursor, limit: 50 }, signal });
}

/** One approval. Raises ApiError. */
export function readApproval(id: string, signal: AbortSignal): Promise<Approval> {
  return native.get<Approval>(path("v1", "approvals", id), { signal });
}

/** Decide. Raises ApiError. */
export function decide(id: string, decision: Verdict, comment: string): Promise<Approval> {
  return native.post<Approval>(path("v1", "approvals", id), { decision, comment });
}

/** What a refused decision means for the user. */
export function refusalText(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  if (error.status === 409) return `It was decided already, or its time is over. ${error.message}`;
  if (error.status !== 403) return error.message;
  if (/another principal/.test(error.message)) {
    return "You have sent this request, or messages to it. The rule asks for four eyes: another person must decide.";
  }
  if (/other approvers/.test(error.message)) return "The rule for this step names other approvers. Ask one of them.";
  if (/scope/.test(error.message)) return "Your token may not decide: it lacks the scope “approve”. Log in with one that has it.";
  return error.message;
}

/** Seconds since 1970 as RFC 3339; null for none. */
export function momentOf(seconds: number): string | null {
  return seconds > 0 ? new Date(seconds * 1000).toISOString() : null;
}
