/** Calls per minute: a window that slides, and refuses further calls. */
import { now } from "./context.js";
import { ResourceExhausted } from "./errors.js";

const MINUTE = 60_000;

/** Lets at most `rate` calls start within any minute. */
export class CallWindow {
  readonly #starts: number[] = [];

  constructor(readonly rate: number) {}

  /** Milliseconds until the next call may start. */
  get delayMs(): number {
    if (this.#starts.length < this.rate) return 0;
    return Math.max(0, (this.#starts[0] ?? 0) + MINUTE - now());
  }

  /** Counts a call. */
  take(): void {
    this.#starts.push(now());
    if (this.#starts.length > this.rate) this.#starts.shift();
  }

  /** Returns the error for a call of a tool that may not start now, with its delay. */
  refusal(name: string): ResourceExhausted | undefined {
    const delayMs = this.delayMs;
    if (delayMs <= 0) return undefined;
    const seconds = Math.round(delayMs / 1000);
    return new ResourceExhausted(`tool ${name} may be called ${this.rate} times per minute: the next call in ${seconds} s`, {
      retryDelayMs: delayMs,
      metadata: { tool: name },
    });
  }
}
