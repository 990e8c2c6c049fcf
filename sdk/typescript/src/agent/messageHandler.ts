/** Handlers of roles that answer messages of other agents while they work. */
import { ArchonError } from "../errors.js";
import { log } from "../log.js";
import { asError } from "../status.js";
import type { Message } from "../types/message.js";
import type { Handler } from "./attempt.js";
import type { Task } from "./task.js";

/** Handles a message, beside the handler of the task. Its return value is the answer; undefined: there is none. */
export type OnMessage = (message: Message, task: Task) => unknown;

/** Returns a handler that passes each message to `onMessage`, one after the other, while `handler` works. */
export function withMessages(handler: Handler, onMessage: OnMessage, topics: readonly string[]): Handler {
  return async (task: Task) => {
    const { messenger } = task;
    try {
      messenger.inbox.keepApart(new Set(topics));
      messenger.subscribe(topics); // before anything that the handler tells others
    } catch (error) {
      if (error instanceof ArchonError && error.code === "UNIMPLEMENTED") return handler(task);
      throw error;
    }
    const over = new AbortController();
    let busy: Promise<void> = Promise.resolve();
    const reading = (async (): Promise<void> => {
      while (true) {
        const message = await messenger.inbox.handled(over.signal);
        if (message === undefined) return;
        busy = handle(task, message, onMessage);
        await busy;
      }
    })().catch(() => undefined); // the attempt is over
    try {
      const result = await handler(task);
      await busy;
      return result;
    } finally {
      over.abort();
      await reading;
    }
  };
}

async function handle(task: Task, message: Message, onMessage: OnMessage): Promise<void> {
  try {
    const answer = await onMessage(message, task);
    if (answer !== undefined && answer !== null) await task.reply(message, answer);
  } catch (error) {
    const reason = asError(error).message;
    log("warning", `a message of ${message.senderId} could not be handled: ${reason}`);
    await task.reply(message, { error: reason, task_id: task.taskId }, "error").catch(() => undefined);
  }
}
