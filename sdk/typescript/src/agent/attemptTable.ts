/** The attempts that an agent holds: in progress, or finished and parked until the result is acknowledged. */
import type { TaskRef } from "../api/archon/api/common/v1/common_pb.js";
import { now } from "../context.js";
import { Aborted } from "../errors.js";
import { log } from "../log.js";
import type { Attempt, AttemptOwner } from "./attempt.js";

const MAX_EPOCHS = 10_000;
const MAX_OVER = 10_000;
const MAX_PARKED_BYTES = 64 * 1024 * 1024;
const STOP_GRACE = 1_000;

/** All attempts of an agent, one per task. They outlive a stream that breaks. */
export class AttemptTable implements AttemptOwner {
  /** Attempts whose handler has not ended, also those that are over without it. */
  readonly running = new Set<Attempt>();
  /** Running attempts that are over: their handler did not end when it was cancelled. */
  readonly abandoned = new Set<Attempt>();
  readonly #attempts = new Map<string, Attempt>();
  readonly #keptBytes = new Map<Attempt, number>();
  readonly #epochs = new Map<string, bigint>();
  readonly #over = new Set<string>();
  readonly #waiters = new Set<() => void>();
  #parkedBytes = 0;

  constructor(
    /** How many handlers may run at once. */
    readonly capacity: number,
    readonly onChanged: () => void,
    /** host:port of the memory service of `Task.shared`; empty: there is none. */
    readonly memory: string,
  ) {}

  [Symbol.iterator](): Iterator<Attempt> {
    return [...this.#attempts.values()][Symbol.iterator]();
  }

  get size(): number {
    return this.#attempts.size;
  }

  /** Returns the attempt at a task that is held, whatever its number. */
  newest(taskId: string): Attempt | undefined {
    return this.#attempts.get(taskId);
  }

  /** Adds an attempt. An older one at the same task is stopped and dropped: its result could not count. */
  add(attempt: Attempt): void {
    const older = this.#attempts.get(attempt.ref.taskId);
    if (older !== undefined) {
      older.session = undefined;
      older.cancel();
    }
    this.#attempts.set(attempt.ref.taskId, attempt);
    if (older !== undefined) this.recount(older);
  }

  /** Drops an attempt whose result was acknowledged or does not count, and remembers for a while that it is over. */
  drop(attempt: Attempt): void {
    this.markOver(attempt.ref);
    if (this.#attempts.get(attempt.ref.taskId) === attempt) {
      this.#attempts.delete(attempt.ref.taskId);
      this.recount(attempt);
    }
    attempt.session = undefined;
    attempt.cancel();
    this.changed();
  }

  /** Remembers that an attempt is over, or was rejected. */
  markOver(ref: TaskRef): void {
    const key = overKey(ref);
    this.#over.delete(key);
    this.#over.add(key);
    if (this.#over.size > MAX_OVER) this.#over.delete(this.#over.values().next().value as string);
  }

  /** Whether an attempt is known to be over: a late copy of its assignment starts nothing. */
  isOver(ref: TaskRef): boolean {
    return this.#over.has(overKey(ref));
  }

  /** Throws Aborted / STALE_EPOCH below the highest epoch seen for the run; remembers a higher one. */
  checkEpoch(ref: TaskRef, held: Attempt | undefined): void {
    let highest = this.#epochs.get(ref.runId) ?? 0n;
    // The epoch of a run may have been forgotten, that of an attempt not.
    if (held !== undefined && held.ref.epoch > highest) highest = held.ref.epoch;
    if (ref.epoch < highest) {
      throw new Aborted(`epoch ${ref.epoch} of run ${ref.runId} is over; its owner has epoch ${highest}`, {
        reason: "STALE_EPOCH",
        metadata: { run_id: ref.runId, epoch: `${highest}` },
      });
    }
    this.#epochs.delete(ref.runId);
    this.#epochs.set(ref.runId, ref.epoch);
    if (this.#epochs.size > MAX_EPOCHS) this.#epochs.delete(this.#epochs.keys().next().value as string);
  }

  /** How many attempts have no result yet. */
  get working(): number {
    let count = 0;
    for (const attempt of this.#attempts.values()) if (attempt.working) count += 1;
    return count;
  }

  /** Whether so many unacknowledged bytes are parked that no credit may be given. */
  get parkedFull(): boolean {
    return this.#parkedBytes > MAX_PARKED_BYTES;
  }

  /** Counts the unacknowledged bytes of an attempt anew. */
  recount(attempt: Attempt): void {
    const isHeld = this.#attempts.get(attempt.ref.taskId) === attempt;
    const kept = isHeld ? attempt.channel.pendingBytes : 0;
    this.#parkedBytes += kept - (this.#keptBytes.get(attempt) ?? 0);
    if (kept > 0) this.#keptBytes.set(attempt, kept);
    else this.#keptBytes.delete(attempt);
  }

  /** Drops results that were not acknowledged within the time that the orchestrator asked for. */
  expire(): void {
    for (const attempt of this) {
      if (attempt.finishedAt === undefined || now() - attempt.finishedAt <= attempt.parkTtl) continue;
      log("warning", `dropped the result of task ${attempt.ref.taskId}: it was never acknowledged`);
      this.drop(attempt);
    }
  }

  /** Frees the slot of an attempt. */
  handlerEnded(attempt: Attempt): void {
    this.running.delete(attempt);
    this.abandoned.delete(attempt);
    this.changed();
  }

  /** Wakes all waiters. */
  changed(): void {
    for (const waiter of [...this.#waiters]) waiter();
    this.onChanged();
  }

  /** Resolves to true when a condition holds, to false after a time. */
  async waitUntil(condition: () => boolean, ms: number): Promise<boolean> {
    const until = now() + ms;
    while (!condition()) {
      const left = until - now();
      if (left <= 0) return false;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(done, left);
        const waiters = this.#waiters;
        function done(): void {
          clearTimeout(timer);
          waiters.delete(done);
          resolve();
        }
        waiters.add(done);
      });
    }
    return true;
  }

  /**
   * Cancels all handlers without sending results (the orchestrator finds the attempts lost), and waits a moment for them to
   * end. Returns how many did not.
   */
  async stop(): Promise<number> {
    for (const attempt of [...this.#attempts.values(), ...this.running]) {
      attempt.session = undefined;
      attempt.cancel();
    }
    this.#attempts.clear();
    this.#keptBytes.clear();
    this.#parkedBytes = 0;
    await this.waitUntil(() => this.running.size === 0, STOP_GRACE);
    if (this.running.size > 0) {
      const names = [...this.running].map((attempt) => attempt.ref.taskId).sort();
      log("error", `left running handlers behind that ignore their cancellation, of tasks ${names.join(", ")}`);
    }
    return this.running.size;
  }
}

function overKey(ref: TaskRef): string {
  return JSON.stringify([ref.runId, ref.taskId, ref.attempt]);
}
