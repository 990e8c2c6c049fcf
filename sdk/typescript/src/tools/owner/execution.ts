/**
 * One execution of a shared tool, which one or several callers with the same idempotency key wait for. It ends with a result,
 * or with an error if it was ended from outside: its lease was revoked, its owner stops, or no caller waits for it any more.
 */
import type { ToolResult } from "../../api/archon/api/tool/v1/tool_pb.js";
import { now, outsideOfCalls } from "../../context.js";
import { OperationCancelled, type ArchonError } from "../../errors.js";
import { log } from "../../log.js";
import { asError } from "../../status.js";
import { withoutSurrogates } from "../../wire.js";
import { failureToProto, lateToProto, successToProto } from "../result.js";

/** Characters of one text of progress; a longer one is cut. */
const MAX_PROGRESS = 1_000;

/** Texts of progress that wait for one caller to read them; older ones are dropped. */
const MAX_WAITING_PROGRESS = 50;

/** Milliseconds that a tool has to end after it was cancelled; then it is abandoned, and goes on holding its place. */
const GRACE = 1_000;

interface Listener {
  readonly progress: string[];
  wake: () => void;
}

/** Executes a call for at most `limitMs`. */
export class Execution {
  leaseId = "";
  result: ToolResult | undefined;
  error: ArchonError | undefined;
  /** Whether the tool itself has returned. */
  hasLeft = false;
  readonly #controller = new AbortController();
  readonly #listeners = new Set<Listener>();
  readonly #began = now();
  readonly #waiters = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    readonly name: string,
    readonly limitMs: number,
    /** Is called once when the outcome is known. */
    readonly ended: (execution: Execution) => void,
    /** Is called once when the tool itself has returned, which may be later. */
    readonly left: (execution: Execution) => void,
  ) {}

  /** Whether the outcome is known. */
  get done(): boolean {
    return this.result !== undefined || this.error !== undefined;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Milliseconds since it began. */
  get tookMs(): number {
    return now() - this.#began;
  }

  /** Starts the execution. */
  start(call: () => unknown): void {
    this.#timer = outsideOfCalls(() => setTimeout(() => this.#finish(lateToProto(this.limitMs), undefined), this.limitMs));
    setImmediate(() => void this.#run(call)); // after its caller listens for progress
  }

  async #run(call: () => unknown): Promise<void> {
    let result: ToolResult;
    try {
      result = successToProto(await call(), this.tookMs);
    } catch (error) {
      result = failureToProto(asError(error, "tool.crash"), this.tookMs);
    }
    this.hasLeft = true;
    this.#finish(result, undefined);
    this.left(this);
    for (const waiter of [...this.#waiters]) waiter();
  }

  /** Passes on progress to each caller that waits. */
  report(text: string): void {
    const shown = withoutSurrogates(text.slice(0, MAX_PROGRESS));
    for (const listener of this.#listeners) {
      listener.progress.push(shown);
      if (listener.progress.length > MAX_WAITING_PROGRESS) listener.progress.shift();
      listener.wake();
    }
  }

  /** Ends it with an error, unless its outcome is known: callers get the error at once, and the tool is cancelled. */
  end(error: ArchonError): void {
    this.#finish(undefined, error);
  }

  /** Yields progress, then the result, for one caller. If the last caller leaves early, the execution is cancelled. */
  async *events(limitMs: number, signal: AbortSignal): AsyncGenerator<string | ToolResult, void, undefined> {
    const listener: Listener = { progress: [], wake: () => undefined };
    this.#listeners.add(listener);
    const until = now() + limitMs;
    try {
      while (!this.done) {
        yield* listener.progress.splice(0);
        if (signal.aborted) return;
        if (this.done) break;
        const left = until - now();
        if (left <= 0) {
          yield lateToProto(limitMs);
          return;
        }
        await new Promise<void>((resolve) => {
          const done = (): void => {
            clearTimeout(timer);
            signal.removeEventListener("abort", done);
            resolve();
          };
          const timer = setTimeout(done, left);
          listener.wake = done;
          signal.addEventListener("abort", done, { once: true });
          if (signal.aborted || listener.progress.length > 0) done();
        });
      }
      yield* listener.progress.splice(0);
    } finally {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.end(new OperationCancelled("the caller cancelled the call"));
    }
    if (this.error !== undefined) throw this.error;
    if (this.result !== undefined) yield this.result;
  }

  /** Waits until the tool has returned, at most so long. Returns whether it has. */
  async waitLeft(ms: number): Promise<boolean> {
    if (!this.hasLeft) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          this.#waiters.delete(done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        this.#waiters.add(done);
      });
    }
    return this.hasLeft;
  }

  #finish(result: ToolResult | undefined, error: ArchonError | undefined): void {
    if (this.done) return;
    clearTimeout(this.#timer);
    [this.result, this.error] = [result, error];
    this.ended(this);
    for (const listener of this.#listeners) listener.wake();
    this.#controller.abort(error ?? new OperationCancelled("the call is over"));
    if (this.hasLeft) return;
    setTimeout(() => {
      if (!this.hasLeft) log("warning", `shared tool ${this.name} ignores that its call was cancelled; it is abandoned`);
    }, GRACE).unref();
  }
}
