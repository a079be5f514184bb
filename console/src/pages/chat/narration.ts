// What an orchestrator reports besides its answer: the answers of other agents, and its tool calls.
// Parley's host and arbiter 0.12 send each as a data artifact of its own, marked in the metadata; see
// src/parley/cli/output/orchestration.py. Files that they write are artifacts like any other.

import type { Artifact, JsonObject } from "../../a2a/types.ts";
import { isObject } from "../../content/schema_fields.ts";

const PREFIX = "x-arbiter.";

export interface Step {
  id: string;
  kind: "agent" | "tool";
  name: string;
  /** What the agent answered; empty for tools. */
  text: string;
  hasFailed: boolean;
  /** The task of the other agent, if it is known. */
  task: string;
}

/** The step that an artifact reports; null if it is part of the answer. */
export function stepOf(artifact: Artifact): Step | null {
  const [part, ...more] = artifact.parts ?? [];
  if (!part || more.length > 0 || !isObject(part.data)) return null;
  const marks: JsonObject = { ...artifact.metadata, ...part.metadata };
  const facts = part.data;
  const text = (name: string) => (typeof facts[name] === "string" ? facts[name] : "");
  if (marks[`${PREFIX}sub_agent_response`] === true) {
    const task = marks[`${PREFIX}task_id`];
    return {
      id: artifact.artifactId, kind: "agent", name: text("agent") || "?", text: text("content"), hasFailed: false,
      task: typeof task === "string" ? task : "",
    };
  }
  if (marks[`${PREFIX}tool_call`] === true) {
    return { id: artifact.artifactId, kind: "tool", name: text("tool") || "?", text: "", hasFailed: facts["ok"] !== true, task: "" };
  }
  return null;
}

/** Why a task did not complete, as Parley's host writes it into the metadata; empty if it does not say. */
export function failureIn(metadata: JsonObject | undefined): string {
  const error = metadata?.[`${PREFIX}error`];
  return typeof error === "string" ? error : "";
}
