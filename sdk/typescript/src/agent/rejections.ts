/** The errors with which an agent refuses a frame, a task or a stream. */
import type { TaskRef } from "../api/archon/api/common/v1/common_pb.js";
import {
  Aborted,
  FailedPrecondition,
  invalidField,
  NotFound,
  PermissionDenied,
  ResourceExhausted,
  Unavailable,
  Unimplemented,
} from "../errors.js";

/** Characters of an orchestrator's id, a run id or a task id. */
export const MAX_ID = 256;

/** Ends the whole stream; other errors refuse one frame. */
export class StreamRefused extends FailedPrecondition {}

/** Ends the whole stream: a limit of sessions, streams or frames is reached. */
export class StreamExhausted extends ResourceExhausted {}

/** Throws InvalidArgument unless the reference names a task and a run by ids of at most MAX_ID characters. */
export function checkRef(ref: TaskRef): void {
  for (const [field, text] of [
    ["task.task_id", ref.taskId],
    ["task.run_id", ref.runId],
  ] as const) {
    if (text.length === 0 || text.length > MAX_ID) throw invalidField(field, `must be 1 to ${MAX_ID} characters`);
  }
}

/** The attempt belongs to another orchestrator, whose epoch is not lower. */
export function notYours(ref: TaskRef): PermissionDenied {
  return new PermissionDenied(`task ${ref.taskId} was assigned by another orchestrator, or belongs to another run`, {
    metadata: { task_id: ref.taskId },
  });
}

/** The kind of frame is unknown, or was not agreed to. */
export function unknownFrame(arm: string | undefined): Unimplemented {
  const name = arm?.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) ?? "of a newer version";
  return new Unimplemented(`unknown frame ${name}`, { reason: "UNKNOWN_FRAME" });
}

/** A newer stream of the same orchestrator has replaced this one. */
export function replaced(orchestratorId: string): Aborted {
  return new Aborted("a newer stream of the same orchestrator took over", {
    reason: "SESSION_REPLACED",
    metadata: { id: orchestratorId },
  });
}

/** A frame is missing before this one. */
export function sequenceGap(got: number, expected: number): Aborted {
  return new Aborted(`sequence gap: got ${got}, expected ${expected}`, {
    reason: "SEQUENCE_GAP",
    metadata: { expected: `${expected}` },
  });
}

/** The agent takes no new tasks. */
export function draining(): Unavailable {
  return new Unavailable("this instance is draining", { reason: "DRAINING" });
}

/** The agent has no free slot; try again after a delay. */
export function noCapacity(): ResourceExhausted {
  return new ResourceExhausted("this instance has no free slot", { reason: "NO_CAPACITY", retryDelayMs: 200 });
}

/** The attempt is not held here. */
export function notHeld(): NotFound {
  return new NotFound("this instance does not hold the task", { reason: "NOT_HELD" });
}
