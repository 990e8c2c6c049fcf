/** The edit of a plan: of its steps that have not begun. */
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";
import type { Plan, PlanStep } from "@api/archon/api/common/v1/plan_pb.js";
import { isObject, parsed, type Json, type JsonObject } from "../../parts/form/json.js";

export interface StepDraft {
  /** Number of the draft, by which others depend on it: its id can change, also to one that another has for a moment. */
  readonly key: number;
  id: string;
  role: string;
  description: string;
  /** Keys of the drafts that end before it begins. */
  dependencies: number[];
  /** Whether the step has begun: it stays as it is. */
  readonly fixed: boolean;
  /** All fields of the step, as planners write them. */
  readonly whole: JsonObject;
}

const WAITING = [TaskState.UNSPECIFIED, TaskState.SUBMITTED];

export function draftsOf(plan: Plan): StepDraft[] {
  const keys = new Map(plan.steps.map((step, key) => [step.stepId, key]));
  return plan.steps.map((step, key) => ({
    key, id: step.stepId, role: step.role, description: step.description, dependencies: step.dependencies.flatMap((id) => keys.get(id) ?? []), fixed: !WAITING.includes(step.state), whole: stepJson(step),
  }));
}

/** Returns a new step, after those with these keys. */
export function newDraft(drafts: readonly StepDraft[], dependencies: readonly number[]): StepDraft {
  const ids = new Set(drafts.map((draft) => draft.id));
  let number = drafts.length + 1;
  while (ids.has(`step-${number}`)) number++;
  return { key: Math.max(-1, ...drafts.map((draft) => draft.key)) + 1, id: `step-${number}`, role: "", description: "", dependencies: [...dependencies], fixed: false, whole: {} };
}

/** Returns the drafts without one: what depended on it depends on its dependencies. */
export function without(drafts: readonly StepDraft[], gone: StepDraft): StepDraft[] {
  return drafts
    .filter((draft) => draft !== gone)
    .map((draft) => (draft.dependencies.includes(gone.key) ? { ...draft, dependencies: [...new Set(draft.dependencies.flatMap((key) => (key === gone.key ? gone.dependencies : [key])))] } : draft));
}

/** Returns what is wrong with a plan, in sentences; none if nothing is. */
export function faultsOf(drafts: readonly StepDraft[]): readonly string[] {
  const faults: string[] = [];
  const ids = drafts.map((draft) => draft.id);
  if (drafts.length === 0) faults.push("A plan has at least one step.");
  for (const id of new Set(ids.filter((each, index) => ids.indexOf(each) !== index))) faults.push(`Two steps are named ${id}.`);
  if (ids.some((id) => id.trim() === "")) faults.push("A step has no name.");
  if (drafts.some((draft) => !draft.fixed && draft.description.trim() === "")) faults.push("A step has no description.");
  const waiting = new Map(drafts.map((draft) => [draft.key, draft]));
  for (let changed = true; changed; ) {
    changed = false;
    for (const [key, { dependencies }] of waiting) {
      if (dependencies.some((other) => waiting.has(other))) continue;
      waiting.delete(key);
      changed = true;
    }
  }
  if (waiting.size > 0) faults.push(`These steps wait for each other: ${[...waiting.values()].map((draft) => draft.id).join(", ")}.`);
  return faults;
}

/** Returns the plan as the JSON of planners. */
export function planJson(goal: string, drafts: readonly StepDraft[]): string {
  return JSON.stringify({ goal, subtasks: drafts.map((draft) => ({ ...draft.whole, id: draft.id, role: draft.role, description: draft.description, dependencies: upstreamOf(draft, drafts) })) });
}

/** Returns a plan as text, line by line, for differences. */
export function planText(drafts: readonly StepDraft[]): string {
  return drafts.map((draft) => `${draft.id} (${draft.role || "any role"})${draft.dependencies.length > 0 ? ` after ${upstreamOf(draft, drafts).join(", ")}` : ""}\n    ${draft.description}`).join("\n");
}

/** Returns the names of the steps that end before one begins. */
function upstreamOf(draft: StepDraft, drafts: readonly StepDraft[]): string[] {
  return draft.dependencies.flatMap((key) => drafts.find((other) => other.key === key)?.id ?? []);
}

function stepJson(step: PlanStep): JsonObject {
  const json = (text: string): Json => {
    const value = text === "" ? {} : parsed(text);
    return isObject(value) ? value : {};
  };
  return {
    id: step.stepId, description: step.description, expected_output: step.expectedOutput, tool_name: step.toolName, tool_args: json(step.toolArgsJson),
    dependencies: step.dependencies, role: step.role, capability: step.capability, critical: step.critical, partial_input: step.partialInput,
    checkpoint: step.checkpoint, expand: step.expand, expand_on_failure: step.expandOnFailure, confidence: step.confidence, exact: step.exact,
    quorum: step.quorum, delay_seconds: step.delaySeconds, delay_quantile: step.delayQuantile, decision: step.decision,
    timeout_seconds: step.timeoutSeconds, assigned_by: step.assignedBy, bid_for: step.bidFor, output_schema: json(step.outputSchemaJson),
    estimated_seconds: step.estimatedSeconds, estimated_cost_micro_usd: Number(step.estimatedCostMicroUsd),
  };
}
