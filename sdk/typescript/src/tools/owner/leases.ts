/** The leases of an owner's shared tools: bounded in number, and each for a limited time. */
import { randomBytes } from "node:crypto";
import { CallWindow } from "../../callWindow.js";
import { now } from "../../context.js";
import { NotFound, ResourceExhausted } from "../../errors.js";
import type { TaskRef } from "../../types/usage.js";

/** Milliseconds of a lease by default, and at most. */
export const LEASE_MS = 600_000;
export const MAX_LEASE_MS = 3_600_000;

/** Above it the lease that was used least recently makes room, if it was not used for IDLE_MS. */
const MAX_LEASES = 4_096;
const IDLE_MS = 60_000;

/** The right to execute one tool until `expiresAt`. `task` and `instanceId` are the claims of its holder. */
export interface Lease {
  readonly leaseId: string;
  readonly toolName: string;
  readonly expiresAt: number;
  readonly task: TaskRef | undefined;
  readonly instanceId: string;
  readonly window: CallWindow | undefined;
  usedAt: number;
  /** Calls in progress. */
  calls: number;
}

/** The leases that are in force, in the order of their last use. */
export class LeaseTable {
  readonly #leases = new Map<string, Lease>();

  /** Returns the leases that are in force. */
  all(): Lease[] {
    this.#expire();
    return [...this.#leases.values()];
  }

  /** Adds a lease. Throws ResourceExhausted, with a delay, if there are too many. */
  grant(toolName: string, ms: number, rate: number, task: TaskRef | undefined, instanceId: string): Lease {
    if (this.#leases.size >= MAX_LEASES) this.#makeRoom();
    const lease: Lease = {
      leaseId: randomBytes(24).toString("base64url"),
      toolName,
      expiresAt: now() + ms,
      task,
      instanceId,
      window: rate > 0 ? new CallWindow(rate) : undefined,
      usedAt: now(),
      calls: 0,
    };
    this.#leases.set(lease.leaseId, lease);
    return lease;
  }

  /** Returns a lease, which counts as its use. Throws NotFound / LEASE_EXPIRED if it is not in force. */
  find(leaseId: string): Lease {
    const lease = this.#leases.get(leaseId);
    if (lease === undefined || lease.expiresAt <= now()) {
      this.#leases.delete(leaseId);
      throw new NotFound("the lease of the tool has expired, was revoked, or never existed: lease the tool again", {
        reason: "LEASE_EXPIRED",
      });
    }
    lease.usedAt = now();
    this.#leases.delete(leaseId);
    this.#leases.set(leaseId, lease);
    return lease;
  }

  /** Removes a lease; returns it if it was in force. */
  remove(leaseId: string): Lease | undefined {
    const lease = this.#leases.get(leaseId);
    this.#leases.delete(leaseId);
    return lease;
  }

  /** Removes all leases. */
  clear(): void {
    this.#leases.clear();
  }

  #expire(): boolean {
    const size = this.#leases.size;
    for (const lease of [...this.#leases.values()]) if (lease.expiresAt <= now()) this.#leases.delete(lease.leaseId);
    return this.#leases.size < size;
  }

  #makeRoom(): void {
    if (this.#expire()) return;
    const oldest = [...this.#leases.values()].find((lease) => lease.calls === 0);
    const idle = oldest === undefined ? 0 : now() - oldest.usedAt;
    if (oldest === undefined || idle < IDLE_MS) {
      const retryDelayMs = Math.max(1_000, IDLE_MS - idle);
      throw new ResourceExhausted(`this instance has ${MAX_LEASES} leases of tools in use`, { retryDelayMs });
    }
    this.#leases.delete(oldest.leaseId);
  }
}
