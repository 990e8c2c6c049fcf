/** A live registration: registered in the background, and again after any outage. */
import { now, outsideOfCalls } from "../context.js";
import type { ArchonError } from "../errors.js";
import { log } from "../log.js";
import { asError } from "../status.js";
import type { Registration } from "./registration.js";
import { backoff, isTransient, pause } from "./retry.js";

/** Milliseconds for one RegisterInstance; the registry gives up on its store earlier. */
export const CALL_TIMEOUT_MS = 6_000;

/** Milliseconds for one DeregisterInstance; if it fails the lease expires. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** What the registry grants: a lease, and the edges that it refuses. */
export interface Lease {
  readonly ttlMs: number;
  readonly refusedCycles: readonly string[];
}

/** The calls by which a handle registers. */
export interface Registrar {
  register(registration: Registration, signal: AbortSignal): Promise<Lease>;
  deregister(instanceId: string): Promise<void>;
  onLeased(): void;
}

/** A live registration, from `RegistryClient.register`. Close it when the process stops serving. */
export class RegistrationHandle {
  /** Whether the registry is known to hold the registration. */
  registered = false;
  /** Why the last attempt to register failed. */
  error: ArchonError | undefined;
  /** The lease, as granted. */
  ttlMs: number;
  /** When the last answered renewal was sent. */
  renewed = 0;
  /** Called once the registry has refused the content as invalid: no further attempt succeeds with it. */
  onInvalid: (error: ArchonError) => void = () => undefined;
  #isWanted = true;
  #closed: Promise<void> | undefined;
  #tried = new Set<() => void>();
  #wake: () => void = () => undefined;
  #ended: Promise<void> = Promise.resolve();
  readonly #stop = new AbortController();

  constructor(
    /** The content that is registered, or will be. */
    public registration: Registration,
    readonly registrar: Registrar,
  ) {
    this.ttlMs = Math.max(1_000, registration.ttlMs);
  }

  get instanceId(): string {
    return this.registration.instanceId;
  }

  /** Whether there is a lease to renew. */
  get hasLease(): boolean {
    return !this.#isWanted && this.registered;
  }

  /** Registers in the background, until `close`. */
  start(): void {
    this.#ended = outsideOfCalls(() => this.#keep());
  }

  /** Waits until the registry holds the registration, at most so long. Throws errors that are not transient. */
  async firstAnswer(timeoutMs: number): Promise<void> {
    const until = now() + timeoutMs;
    while (!this.registered && now() < until) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          this.#tried.delete(done);
          resolve();
        };
        const timer = setTimeout(done, until - now());
        this.#tried.add(done);
      });
      if (!this.registered && this.error !== undefined && !isTransient(this.error)) throw this.error;
    }
  }

  /** Registers other content under the same id. If the registry refuses it, the former content stays registered. */
  async update(registration: Registration, timeoutMs = 10_000): Promise<void> {
    const before = this.registration;
    this.registration = { ...registration, instanceId: this.instanceId };
    this.lost();
    try {
      await this.firstAnswer(timeoutMs);
    } catch (error) {
      this.registration = before;
      this.lost();
      throw error;
    }
  }

  /** Registers again: the registry has lost the registration, or holds other content. */
  lost(): void {
    this.registered = false;
    this.#isWanted = true;
    this.#wake();
  }

  /** Notes that it may have expired, if no renewal was answered for a whole lease. */
  lapse(): void {
    if (this.registered && now() - this.renewed > this.ttlMs) this.lost();
  }

  /** Takes the answer to a renewal sent at `began`: the milliseconds of lease that are left, 0 if it has expired. */
  renewal(began: number, leftMs: number): void {
    if (leftMs <= 0) {
      this.lost();
    } else if (!this.#isWanted) {
      [this.ttlMs, this.renewed, this.registered] = [leftMs, began, true];
    }
  }

  /** Stops renewing and deregisters, within about two seconds; else the lease expires. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Stops without deregistering: the registration was refused; the id may belong to another owner. */
  async abandon(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    await this.#ended;
    this.registered = false;
  }

  async #close(): Promise<void> {
    await this.abandon();
    try {
      await this.registrar.deregister(this.instanceId);
    } catch (error) {
      log("info", `${this.instanceId} could not be deregistered, its lease will expire: ${asError(error).message}`);
    }
  }

  async #keep(): Promise<void> {
    const { signal } = this.#stop;
    let attempt = 0;
    let logged = "";
    while (!signal.aborted) {
      if (!this.#isWanted) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
          if (this.#isWanted || signal.aborted) resolve();
        });
        continue;
      }
      this.#isWanted = false;
      const began = now();
      try {
        const lease = await this.registrar.register(this.registration, signal);
        if (this.#isWanted) continue; // the content has changed meanwhile
        if (attempt > 0 && this.#tried.size === 0) log("info", `${this.instanceId} is registered`);
        [attempt, this.error] = [0, undefined];
        for (const cycle of lease.refusedCycles) {
          log("warning", `an edge of ${this.instanceId} is refused because it would close the cycle ${cycle}`);
        }
        [this.ttlMs, this.renewed, this.registered] = [lease.ttlMs || this.ttlMs, began, true];
        this.#tell();
        this.registrar.onLeased();
      } catch (raised) {
        if (signal.aborted) return;
        const error = asError(raised);
        this.error = error;
        this.#isWanted = true;
        const isThrown = this.#tried.size > 0 && !isTransient(error); // by `firstAnswer`, and not tried again
        this.#tell();
        if (error.code === "INVALID_ARGUMENT") this.onInvalid(error);
        if (!isThrown && (attempt === 0 || (!isTransient(error) && error.message !== logged))) {
          log("warning", `${this.instanceId} is not registered, trying again: ${error.message}`);
          logged = error.message;
        }
        await pause(backoff(attempt, error), signal, { ref: false }).catch(() => undefined);
        attempt += 1;
      }
    }
  }

  #tell(): void {
    for (const waiter of [...this.#tried]) waiter();
  }
}
