/** The content of the frame that ends an attempt: of a handler's return value, or of the error that ended it. */
import { create } from "@bufbuild/protobuf";
import { TaskResultSchema, type TaskResult } from "../api/archon/api/agent/v1/agent_pb.js";
import { TaskState } from "../api/archon/api/common/v1/common_pb.js";
import { ArchonError, TaskRejected } from "../errors.js";
import { agentContent, type FrameChannel } from "../frames.js";
import { log } from "../log.js";
import { asError, toFailure } from "../status.js";
import { usageToProto } from "../types/usage.js";
import { toResult } from "./result.js";
import type { Task } from "./task.js";

/** The part of an attempt that its result depends on. */
export interface Ending {
  readonly channel: FrameChannel;
  /** Bytes of a frame that the peer takes. */
  readonly limit: number;
  /** Why the attempt was stopped. */
  readonly halted: ArchonError | undefined;
}

/** Returns the result and its content. An answer, or an error, that cannot be encoded fails the task. */
export function resultContent(task: Task, outcome: unknown, ending: Ending): { result: TaskResult; content: Uint8Array } {
  let result: TaskResult;
  try {
    result = outcome instanceof ArchonError ? failed(task, outcome, ending.halted) : toResult(task, outcome);
    return { result, content: fitting(task, result, ending) };
  } catch (error) {
    result = failed(task, handlerFailure(error), ending.halted);
    return { result, content: agentContent("result", TaskResultSchema, result) };
  }
}

/** Returns the error that ends an attempt whose handler threw something. */
export function handlerFailure(raised: unknown): ArchonError {
  return asError(raised, "tool.crash");
}

/** Items that make the frame too large are left out; without them it throws FRAME_TOO_LARGE. */
function fitting(task: Task, result: TaskResult, ending: Ending): Uint8Array {
  const content = agentContent("result", TaskResultSchema, result);
  try {
    ending.channel.checkSize(content, ending.limit);
    return content;
  } catch (error) {
    if (result.items.length === 0) throw error;
    log("warning", `the items of task ${task.taskId} are not published: with them ${(error as Error).message}`);
  }
  result.items = [];
  return fitting(task, result, ending);
}

function failed(task: Task, error: ArchonError, halted: ArchonError | undefined): TaskResult {
  let state = TaskState.FAILED;
  if (error instanceof TaskRejected) state = TaskState.REJECTED;
  else if (error === halted && error.code === "CANCELLED") state = TaskState.CANCELED;
  return create(TaskResultSchema, { state, failure: toFailure(error), usage: usageToProto(task.usage) });
}
