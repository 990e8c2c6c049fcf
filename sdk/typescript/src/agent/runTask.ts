/** RunTask: one task in one call, without an orchestrator. It takes a slot like any other and ends with its call. */
import { clone, create, fromBinary } from "@bufbuild/protobuf";
import { randomUUID } from "node:crypto";
import { AssignTaskSchema, type AssignTask } from "../api/archon/api/agent/v1/agent_pb.js";
import { AgentFrameSchema, type AgentFrame } from "../api/archon/api/agent/v1/session_pb.js";
import { TaskRefSchema } from "../api/archon/api/common/v1/common_pb.js";
import { remainingMs } from "../context.js";
import { InvalidArgument, Unavailable } from "../errors.js";
import type { OutgoingFrame } from "../frames.js";
import type { ServedCall } from "../server.js";
import { durationOf, MAX_CHECKED_BYTES, toMs } from "../wire.js";
import { Attempt, type FrameSink } from "./attempt.js";
import type { SessionAgent } from "./sessionAgent.js";

/** Milliseconds of the call's time that are kept for the answer to travel. */
const ANSWER_MARGIN = 100;

/** Runs a task: yields progress, then one result. A caller that leaves cancels the task. */
export async function* runTask(
  agent: SessionAgent,
  request: AssignTask | undefined,
  call: ServedCall,
): AsyncGenerator<object, void, undefined> {
  const task = request ?? create(AssignTaskSchema);
  if (!task.input.some((part) => part.content.case !== undefined)) {
    throw new InvalidArgument("the task has no input", {
      fieldViolations: [{ field: "task.input", description: "at least one part" }],
    });
  }
  const refusal = agent.refusal(undefined, undefined);
  if (refusal !== undefined) throw refusal;
  const frames: AgentFrame["frame"][] = [];
  let wake = (): void => undefined;
  call.signal.addEventListener("abort", () => wake(), { once: true });
  const sink: FrameSink = {
    orchestratorId: "",
    agreed: new Set(["progress"]),
    peerLimit: MAX_CHECKED_BYTES,
    parkTtl: 0,
    put: ({ head, content }: OutgoingFrame) => {
      const bytes = Buffer.concat([head, content]);
      const start = head.length - headSize(head);
      frames.push(fromBinary(AgentFrameSchema, bytes.subarray(start)).frame);
      wake();
    },
  };
  const taskId = `direct-${randomUUID()}`;
  const ref = create(TaskRefSchema, { taskId, runId: taskId, attempt: 1 });
  const attempt = new Attempt(agent.attempts, ref, sink);
  agent.attempts.add(attempt);
  try {
    attempt.start(task.bidRequest === undefined ? agent.handler : agent.bidHandler, bounded(task), agent.role);
    while (!call.signal.aborted) {
      const frame = frames.shift();
      if (frame?.case === "progress") yield { event: frame };
      if (frame?.case === "result") {
        yield { event: frame };
        return;
      }
      if (frame !== undefined) continue;
      if (agent.attempts.newest(taskId) === undefined) throw new Unavailable("the agent stopped before the task was done");
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (frames.length > 0 || call.signal.aborted) resolve();
      });
    }
  } finally {
    attempt.cancel({ over: true });
    agent.attempts.drop(attempt);
  }
}

/** Returns the bytes of a head without the key and the length of its entry. */
function headSize(head: Uint8Array): number {
  let position = 1;
  while (((head[position] ?? 0) & 0x80) !== 0) position += 1;
  return head.length - position - 1;
}

/** Returns the task, with no more time than its call has. */
function bounded(task: AssignTask): AssignTask {
  const left = remainingMs();
  if (left === undefined) return task;
  const most = Math.max(0, left - ANSWER_MARGIN);
  if (task.remaining !== undefined && toMs(task.remaining) <= most) return task;
  const copy = clone(AssignTaskSchema, task);
  copy.remaining = durationOf(most);
  return copy;
}
