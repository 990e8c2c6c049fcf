/** Messages between the tasks of a run. */
import type { RunEvent } from "../api/archon/api/orchestrator/v1/run_pb.js";
import type { ArchonError } from "../errors.js";
import { fromFailure } from "../status.js";
import { messageFromProto, type Message } from "../types/message.js";

/** A message of the task `taskId`; with `failure` it was refused. `readers` are the tasks that have read it. */
export interface MessageView {
  message: Message;
  taskId: string;
  failure: ArchonError | undefined;
  readers: string[];
}

/** The messages of a run, in order; each is listed once, however often attempts have sent it. */
export class Messages {
  readonly all: MessageView[] = [];
  readonly #topics = new Map<string, Set<string>>();

  /** Folds an event of a message, a subscription or a dispatch. */
  apply(event: RunEvent): void {
    const taskId = event.task?.taskId ?? "";
    const { case: kind, value } = event.event;
    if (kind === "messageSent" && value.firstSeq === 0n && value.message !== undefined) {
      const failure = value.failure && fromFailure(value.failure);
      this.all.push({ message: messageFromProto(value.message), taskId, failure, readers: [] });
    } else if (kind === "subscribed") {
      this.#topics.set(taskId, new Set([...(this.#topics.get(taskId) ?? []), ...value.topics]));
    } else if (kind === "dispatched") {
      this.#topics.delete(taskId);
    }
  }

  /** Notes that a task has read its messages up to a number. */
  noteRead(taskId: string, role: string, stepId: string, readSeq: number): void {
    const topics = this.#topics.get(taskId) ?? new Set<string>();
    for (const each of this.all) {
      const { receiverId, type, seq } = each.message;
      if (each.failure !== undefined || each.taskId === taskId || seq > readSeq) continue;
      const isFor = receiverId
        ? [role, stepId, taskId].includes(receiverId)
        : topics.has("broadcast") || topics.has(`type:${type}`);
      if (isFor) each.readers.push(taskId);
    }
  }
}
