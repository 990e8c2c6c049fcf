/** Resources spent, budgets, and references to attempts and answers. */
import { create } from "@bufbuild/protobuf";
import {
  BudgetSchema,
  TaskRefSchema,
  TaskState as TaskStateEnum,
  UsageSchema,
  type Budget as BudgetMessage,
  type TaskRef as TaskRefMessage,
  type Usage as UsageMessage,
} from "../api/archon/api/common/v1/common_pb.js";
import { durationOf, toInt64, toMs } from "../wire.js";

/** Resources spent; all counts are additive. */
export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  modelCalls?: number;
  toolCalls?: number;
  costMicroUsd?: number;
  cachedInputTokens?: number;
  cacheWriteTokens?: number;
  /** Whether the token counts are an estimate. */
  estimated?: boolean;
}

const COUNTS = [
  "inputTokens",
  "outputTokens",
  "modelCalls",
  "toolCalls",
  "costMicroUsd",
  "cachedInputTokens",
  "cacheWriteTokens",
] as const;

/** Returns the sum of two usages. */
export function addUsage(one: Usage, other: Usage): Usage {
  const sum: Usage = {};
  for (const name of COUNTS) {
    const value = (one[name] ?? 0) + (other[name] ?? 0);
    if (value !== 0) sum[name] = value;
  }
  if (one.estimated || other.estimated) sum.estimated = true;
  return sum;
}

export function usageToProto(usage: Usage): UsageMessage {
  const message = create(UsageSchema, { estimated: usage.estimated ?? false });
  for (const name of COUNTS) message[name] = toInt64(Math.round(usage[name] ?? 0), name);
  return message;
}

export function usageFromProto(message: UsageMessage | undefined): Usage {
  const usage: Usage = {};
  for (const name of COUNTS) {
    const value = Number(message?.[name] ?? 0n);
    if (value !== 0) usage[name] = value;
  }
  if (message?.estimated) usage.estimated = true;
  return usage;
}

/** A budget; a field that is 0 or absent sets no limit. */
export interface Budget {
  maxTokens?: number;
  maxCostMicroUsd?: number;
  maxTimeMs?: number;
  maxDepth?: number;
  maxModelCalls?: number;
}

export function budgetToProto(budget: Budget): BudgetMessage {
  return create(BudgetSchema, {
    maxTokens: toInt64(budget.maxTokens ?? 0, "maxTokens"),
    maxCostMicroUsd: toInt64(budget.maxCostMicroUsd ?? 0, "maxCostMicroUsd"),
    maxDepth: budget.maxDepth ?? 0,
    maxModelCalls: toInt64(budget.maxModelCalls ?? 0, "maxModelCalls"),
    ...(budget.maxTimeMs !== undefined && { maxTime: durationOf(budget.maxTimeMs) }),
  });
}

export function budgetFromProto(message: BudgetMessage): Budget {
  return {
    ...(message.maxTokens !== 0n && { maxTokens: Number(message.maxTokens) }),
    ...(message.maxCostMicroUsd !== 0n && { maxCostMicroUsd: Number(message.maxCostMicroUsd) }),
    ...(message.maxTime !== undefined && { maxTimeMs: toMs(message.maxTime) }),
    ...(message.maxDepth !== 0 && { maxDepth: message.maxDepth }),
    ...(message.maxModelCalls !== 0n && { maxModelCalls: Number(message.maxModelCalls) }),
  };
}

/** A reference to one attempt. */
export interface TaskRef {
  readonly taskId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly epoch: number;
}

export function refToProto(ref: TaskRef): TaskRefMessage {
  return create(TaskRefSchema, { ...ref, epoch: BigInt(ref.epoch) });
}

export function refFromProto(message: TaskRefMessage): TaskRef {
  const { taskId, runId, attempt, epoch } = message;
  return { taskId, runId, attempt, epoch: Number(epoch) };
}

/** The state of a task or a run. */
export type TaskState = Exclude<keyof typeof TaskStateEnum, "UNSPECIFIED"> | "UNSPECIFIED";

const FINAL: readonly TaskState[] = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"];

/** Returns the name of a state; UNSPECIFIED for one that this version does not know. */
export function stateName(state: TaskStateEnum): TaskState {
  return (TaskStateEnum[state] as TaskState | undefined) ?? "UNSPECIFIED";
}

/** Whether a state is final. */
export function isFinal(state: TaskState): boolean {
  return FINAL.includes(state);
}
