/** The assignment of an attempt, as its handler reads it. */
import type { AssignTask } from "../api/archon/api/agent/v1/agent_pb.js";
import type { TraceContext } from "../context.js";
import { partFromProto, textOf, type Part } from "../types/part.js";
import { budgetFromProto, type Budget, type TaskRef } from "../types/usage.js";
import { answerFromProto, type GivenAnswer } from "./question.js";
import {
  historyFromProto,
  policyFromProto,
  SESSION_KEY,
  type DelegationTarget,
  type HistoryMessage,
  type PropagationPolicy,
} from "./values.js";

/** What was assigned. Values are converted when they are read. */
export class Assignment {
  constructor(
    /** A reference to this attempt, for example to lease a tool for it. */
    readonly ref: TaskRef,
    /** The assignment as a message, without the answers that came later. */
    readonly proto: AssignTask,
    /** The role that the agent serves. */
    readonly role: string,
  ) {}

  /** The task's id, the same for all attempts. */
  get taskId(): string {
    return this.ref.taskId;
  }

  get runId(): string {
    return this.ref.runId;
  }

  /** The number of this attempt, from 1. */
  get attempt(): number {
    return this.ref.attempt;
  }

  /** All parts of the input. */
  get parts(): readonly Part[] {
    return this.proto.input.map(partFromProto);
  }

  /** The text of the input. */
  get text(): string {
    return textOf(this.proto.input);
  }

  /** A text about the other roles, for a coordinator; empty for all other roles. */
  get awareness(): string {
    return this.proto.awareness;
  }

  /** The roles that a coordinator may delegate to, in dependency order. */
  get delegationTargets(): readonly DelegationTarget[] {
    return this.proto.delegationTargets.map(({ role, description }) => ({ role, description }));
  }

  /** The roles that wait for this task, outermost first. */
  get delegationChain(): readonly string[] {
    return this.proto.delegationChain;
  }

  /** The first slice of the run's budget that the attempt may spend; undefined if the run has no budget. */
  get budget(): Budget | undefined {
    return this.proto.budget === undefined ? undefined : budgetFromProto(this.proto.budget);
  }

  /** A description of a good answer; may be empty. */
  get expectedOutput(): string {
    return this.proto.expectedOutput;
  }

  /** The JSON Schema of the answer, which is then one JSON part; empty if the step has none. */
  get outputSchemaJson(): string {
    return this.proto.outputSchemaJson;
  }

  /** Why the result of the attempt before was refused; empty if it was not. */
  get refusal(): string {
    return this.proto.refusal;
  }

  /** The step of the plan that the task executes; empty if it executes none. */
  get stepId(): string {
    return this.proto.stepId;
  }

  /** The only tools that the task may use, by name; empty if it may use any. */
  get allowedTools(): readonly string[] {
    return this.proto.allowedTools;
  }

  /** The arguments of the step's tool as one JSON object; empty if there are none. */
  get toolArgsJson(): string {
    return this.proto.toolArgsJson;
  }

  /** Whether the allowed tool must be called with `toolArgsJson`, or the task fails. */
  get exact(): boolean {
    return this.proto.exact;
  }

  /** The task's place in a trace. */
  get trace(): TraceContext {
    return { traceparent: this.proto.trace?.traceparent ?? "", tracestate: this.proto.trace?.tracestate ?? "" };
  }

  /** The metadata that the run was submitted with. */
  get metadata(): Readonly<Record<string, string>> {
    return this.proto.metadata;
  }

  /** The same for all attempts: a key for calls to systems that deduplicate. */
  get idempotencyKey(): string {
    return this.proto.idempotencyKey;
  }

  /** The id of the role's conversation in the session; empty if the task belongs to no session. */
  get conversationId(): string {
    return this.proto.conversationId;
  }

  /** The id of the run's session; empty if there is none. */
  get sessionId(): string {
    const slash = this.conversationId.lastIndexOf("/");
    return (slash > 0 ? this.conversationId.slice(0, slash) : "") || (this.metadata[SESSION_KEY] ?? "");
  }

  /** The session history of a stateful role, oldest message first. */
  get history(): readonly HistoryMessage[] {
    return this.proto.history.map(historyFromProto);
  }

  /** The newest checkpoint of earlier attempts; empty if there is none. */
  get checkpoint(): Uint8Array {
    return this.proto.resume?.checkpoint ?? new Uint8Array(0);
  }

  /** The answers of people to the questions of earlier attempts, in order. */
  get inputs(): readonly Part[] {
    return (this.proto.resume?.inputs ?? []).map(partFromProto);
  }

  /** The text of `inputs`. */
  get inputText(): string {
    return textOf(this.proto.resume?.inputs ?? []);
  }

  /** The answers of people to questions of this task, by the ids of the questions. */
  get answers(): ReadonlyMap<string, GivenAnswer> {
    return new Map((this.proto.resume?.answers ?? []).map((answer) => [answer.inputId, answerFromProto(answer)]));
  }

  /** The policies wider than `final_response_only` of edges from this role to roles of the run. */
  get publishPolicies(): readonly PropagationPolicy[] {
    return this.proto.publishPolicies.map(policyFromProto);
  }
}
