/** The messages that an attempt has received and its handler has not read yet. */
import { abortError, onAbort } from "../channel.js";
import { DeadlineExceeded, type ArchonError } from "../errors.js";
import type { Message } from "../types/message.js";

/** Begins the ids of messages that wait for a reply: replies to them are for `replyTo`, and not among the others. */
export const REPLY_PREFIX = "q-";

/** Options of an iteration over messages. */
export interface MessageOptions {
  /** `broadcast`, or `type:TYPE`. */
  readonly topics?: readonly string[];
  /** Only messages with a number above this one. */
  readonly after?: number;
  /** The iteration ends if no message comes for so long. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Messages in the order in which they arrived, each once. The mesh bounds them per run. */
export class Inbox {
  /** The highest number of a message that was read. */
  readSeq = 0;
  readonly #unread: Message[] = [];
  readonly #handled: Message[] = [];
  readonly #seen = new Set<number>();
  readonly #replies = new Map<string, Message>();
  readonly #waiters = new Set<() => void>();
  #handledTopics: ReadonlySet<string> | undefined;
  #ended: ArchonError | undefined;

  /** Takes a message in. One that has come before is dropped: a new owner of the run sends all of them again. */
  put(message: Message): void {
    if (this.#seen.has(message.seq)) return;
    this.#seen.add(message.seq);
    if (message.correlationId.startsWith(REPLY_PREFIX)) {
      if (!this.#replies.has(message.correlationId)) this.#replies.set(message.correlationId, message);
    } else {
      (this.#isHandled(message) ? this.#handled : this.#unread).push(message);
    }
    this.#wake();
  }

  /** Keeps the messages with a receiver, and the messages of these topics, for `handled`. */
  keepApart(topics: ReadonlySet<string>): void {
    this.#handledTopics = topics;
  }

  /** Ends all waits with an error: the attempt is over. */
  end(error: ArchonError): void {
    this.#ended ??= error;
    this.#wake();
  }

  /** Yields messages, until none has come for `timeoutMs`; without it without end. */
  async *messages({ after = 0, timeoutMs, signal }: MessageOptions): AsyncGenerator<Message, void, undefined> {
    while (true) {
      const message = await this.#take(() => this.#unread.shift(), timeoutMs, signal);
      if (message === undefined) return;
      if (message.seq > after) yield message;
    }
  }

  /** Returns the next message that is kept apart. */
  async handled(signal: AbortSignal): Promise<Message | undefined> {
    return this.#take(() => this.#handled.shift(), undefined, signal);
  }

  /** Returns the first reply to a message. Throws DeadlineExceeded if none comes within this time. */
  async replyTo(messageId: string, timeoutMs: number): Promise<Message> {
    const take = (): Message | undefined => {
      const reply = this.#replies.get(messageId);
      this.#replies.delete(messageId);
      return reply;
    };
    const reply = await this.#take(take, timeoutMs);
    if (reply === undefined) throw new DeadlineExceeded(`no reply came within ${timeoutMs / 1000} s`);
    return reply;
  }

  async #take(
    next: () => Message | undefined,
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<Message | undefined> {
    const until = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
    while (true) {
      const message = next();
      if (message !== undefined) {
        this.readSeq = Math.max(this.readSeq, message.seq);
        return message;
      }
      if (this.#ended !== undefined) throw this.#ended;
      if (signal?.aborted) throw abortError(signal);
      const left = until === undefined ? undefined : until - performance.now();
      if (left !== undefined && left <= 0) return undefined;
      await this.#changed(left, signal);
    }
  }

  #changed(ms: number | undefined, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      let release = (): void => undefined;
      const done = (): void => {
        clearTimeout(timer);
        release();
        this.#waiters.delete(done);
        resolve();
      };
      this.#waiters.add(done);
      if (ms !== undefined) timer = setTimeout(done, Math.min(ms, 0x7fffffff));
      release = onAbort(signal, done);
    });
  }

  #wake(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }

  #isHandled(message: Message): boolean {
    if (this.#handledTopics === undefined) return false;
    if (message.receiverId) return true;
    return this.#handledTopics.has("broadcast") || this.#handledTopics.has(`type:${message.type}`);
  }
}
