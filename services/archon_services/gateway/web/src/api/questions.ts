/** Questions to people: their texts, and their answers. */
import { Decision, QuestionKind, QuestionState, TimeoutPolicy, Trigger } from "@api/archon/api/common/v1/question_pb.js";
import type { Question } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { isObject, parsed, type Json } from "../parts/form/json.js";
import { textOf } from "../parts/format.js";
import { orchestrator } from "./clients.js";

export interface Answer {
  readonly text?: string;
  readonly json?: Json;
  readonly decision?: Decision;
  /** The identity for whom an admin answers. */
  readonly onBehalfOf?: string;
}

export function isApproval(question: Question): boolean {
  return question.kind === QuestionKind.APPROVAL;
}

/** Answers a question. Throws the error of the call. */
export async function answer(question: Question, { text = "", json, decision = Decision.UNSPECIFIED, onBehalfOf = "" }: Answer): Promise<void> {
  const content = json !== undefined ? ({ case: "dataJson", value: JSON.stringify(json) } as const) : ({ case: "text", value: text } as const);
  const parts = content.value === "" ? [] : [{ content }];
  const headers: Record<string, string> = onBehalfOf === "" ? {} : { "archon-identity": onBehalfOf };
  await orchestrator.respond({ runId: question.runId, inputId: question.inputId, parts, decision }, { headers });
}

/** What a person can change of an approval: a text, or a value in JSON. */
export type Replaceable = { readonly kind: "json"; readonly value: Json } | { readonly kind: "text"; readonly value: string };

/** Returns what waits for an approval. */
export function replaceable(question: Question): Replaceable {
  if (question.plan) return { kind: "json", value: planJson(question.plan) };
  const subject = question.subjectJson === "" ? undefined : parsed(question.subjectJson);
  if (isObject(subject)) {
    const named = subject["arguments"];
    return { kind: "json", value: named ?? subject };
  }
  const last = question.prompt.length > 1 ? question.prompt.slice(1) : [];
  return { kind: "text", value: textOf(last) };
}

/** Returns a plan as a planner writes it. */
function planJson(plan: NonNullable<Question["plan"]>): Json {
  const subtasks = plan.steps.map((step) => {
    const pairs: (readonly [string, Json])[] = [
      ["id", step.stepId],
      ["description", step.description],
      ["expected_output", step.expectedOutput],
      ["tool_name", step.toolName],
      ["tool_args", parsed(step.toolArgsJson) ?? {}],
      ["dependencies", step.dependencies],
      ["role", step.role],
      ["critical", step.critical],
    ];
    return Object.fromEntries(pairs.filter(([key, value]) => ["id", "description", "dependencies"].includes(key) || (value !== "" && value !== false && JSON.stringify(value) !== "{}")));
  });
  return { goal: plan.goal, subtasks };
}

const POLICIES: Readonly<Record<TimeoutPolicy, string>> = {
  [TimeoutPolicy.UNSPECIFIED]: "the run fails",
  [TimeoutPolicy.ABORT]: "the run fails",
  [TimeoutPolicy.DEFAULT]: "the default answer counts",
  [TimeoutPolicy.ESCALATE]: "the next approver is asked",
};

/** What follows if no answer comes in time, in a clause. */
export function timeoutText(question: Question): string {
  const terms = question.terms;
  if (!terms) return POLICIES[TimeoutPolicy.ABORT];
  const text = POLICIES[terms.onTimeout];
  const given = terms.defaultAnswer.slice(0, 200);
  if (terms.onTimeout === TimeoutPolicy.DEFAULT) return `${text}: ${given}`;
  if (terms.onTimeout === TimeoutPolicy.ESCALATE) return `${text}; after the last one ${given === "" ? POLICIES[TimeoutPolicy.ABORT] : `the default answer counts: ${given}`}`;
  return text;
}

const TRIGGERS: Readonly<Record<Trigger, string>> = {
  [Trigger.UNSPECIFIED]: "",
  [Trigger.TOOL]: "before a tool is called",
  [Trigger.PLAN]: "before a plan begins",
  [Trigger.REPLAN]: "before a plan replaces another one",
  [Trigger.CHECKPOINT]: "before anything uses the answer",
  [Trigger.CONFIDENCE]: "the planner has little confidence",
  [Trigger.ERROR]: "before another attempt",
  [Trigger.BREAKPOINT]: "held at a breakpoint",
};

/** Why the question is asked, in a clause; empty if an agent asks by itself. */
export function becauseText(question: Question): string {
  const terms = question.terms;
  const rule = terms?.rule ? `rule ${terms.rule}` : "";
  return [terms ? TRIGGERS[terms.trigger] : "", rule].filter(Boolean).join(", ");
}

const STATES: Readonly<Record<QuestionState, string>> = {
  [QuestionState.UNSPECIFIED]: "closed",
  [QuestionState.PENDING]: "open",
  [QuestionState.APPROVED]: "answered",
  [QuestionState.REJECTED]: "rejected",
  [QuestionState.TIMED_OUT]: "timed out",
  [QuestionState.CANCELLED]: "withdrawn",
};

/** How a question ended, in a word or two. */
export function closedText(question: Question): string {
  return STATES[question.state] + (question.identity === "" ? "" : ` by ${question.identity}`);
}
