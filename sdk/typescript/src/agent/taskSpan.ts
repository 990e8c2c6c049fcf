/** The span of one attempt at a task, as the agent that works on it sees it, and the context of its calls. */
import type { Context, Span } from "@opentelemetry/api";
import type { TaskResult } from "../api/archon/api/agent/v1/agent_pb.js";
import { TaskState } from "../api/archon/api/common/v1/common_pb.js";
import { NONE, type CallContext } from "../context.js";
import { fromFailure } from "../status.js";
import * as names from "../telemetry/names.js";
import { failSpan, startServing } from "../telemetry/spans.js";
import { stateName } from "../types/usage.js";
import type { Task } from "./task.js";

const FAILED = [TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED];

/** Starts the span of an attempt; `within` is the context for its handler. */
export function startTaskSpan(task: Task): { span: Span; within: Context } {
  return startServing(`${names.INVOKE_AGENT} ${task.role}`, task.trace, {
    [names.OPERATION_NAME]: names.INVOKE_AGENT,
    [names.AGENT_NAME]: task.role,
    [names.RUN_ID]: task.runId,
    [names.TASK_ID]: task.taskId,
    [names.TASK_ATTEMPT]: task.attempt,
    ...(task.conversationId && { [names.CONVERSATION_ID]: task.conversationId }),
  });
}

/** Ends the span with the attempt's usage and outcome. */
export function endTaskSpan(span: Span, result: TaskResult): void {
  const { usage } = result;
  if (usage !== undefined && usage.modelCalls > 0n) {
    span.setAttribute(names.INPUT_TOKENS, Number(usage.inputTokens));
    span.setAttribute(names.OUTPUT_TOKENS, Number(usage.outputTokens));
  }
  if (usage?.cachedInputTokens) span.setAttribute(names.CACHED_TOKENS, Number(usage.cachedInputTokens));
  if (usage?.cacheWriteTokens) span.setAttribute(names.CACHE_WRITE_TOKENS, Number(usage.cacheWriteTokens));
  if (usage?.costMicroUsd) span.setAttribute(names.COST, Number(usage.costMicroUsd) / 1e6);
  span.setAttribute(names.TASK_STATE, stateName(result.state).toLowerCase());
  if (FAILED.includes(result.state)) {
    const error = fromFailure(result.failure);
    failSpan(span, error.reason, error.message);
  }
  span.end();
}

/** Returns the context of the calls that a handler makes: their deadline is that of the task, as it is then. */
export function callOf(task: Task): CallContext {
  const { runId, taskId, attempt, role, trace } = task;
  return {
    ...NONE,
    ...trace,
    runId,
    taskId,
    attempt,
    role,
    get deadline(): number | undefined {
      return task.remainingMs() === undefined ? undefined : task.deadline;
    },
  };
}
