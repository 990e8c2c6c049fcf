/**
 * A tool of another agent, leased for one task: renewed when its lease has expired, and moved to another instance when its owner
 * is gone, but never so that a call may act twice.
 */
import { createHash } from "node:crypto";
import { now } from "../../context.js";
import {
  ArchonError,
  DeadlineExceeded,
  FailedPrecondition,
  InvalidArgument,
  NotFound,
  Unavailable,
  type Code,
} from "../../errors.js";
import { log } from "../../log.js";
import { asError } from "../../status.js";
import type { TaskRef } from "../../types/usage.js";
import type { SharedToolResult } from "../result.js";
import { LEASE_MS } from "../owner/leases.js";
import { CALL_MS } from "../owner/toolOwner.js";
import type { FoundTool, ToolQuery } from "./find.js";
import { encodeArguments, wasNotBegun, type ToolPeer } from "./peer.js";

/** How often a call is sent, renewals and other instances included. */
const MAX_TRIES = 4;

/** Milliseconds before its end from which on a lease is replaced before a call. */
const RENEW_EARLY = 5_000;

/** Codes of errors of LeaseTool after which another instance is asked. */
const GONE: readonly Code[] = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNKNOWN"];

/** Finds shared tools and connects with their owners, as ToolClient does. */
export interface ToolMesh {
  readonly instanceId: string;
  find(query: ToolQuery, options: { fresh: boolean; timeoutMs: number }): Promise<FoundTool[]>;
  peer(owner: FoundTool): ToolPeer;
}

/** Options of a lease. */
export interface LeaseOptions {
  /** The owner's role; by default that of the best tool of this name. */
  readonly role?: string;
  /** The attempt that the tool is leased for. */
  readonly task?: TaskRef;
  /** At most so long at a time; it is renewed as needed. */
  readonly durationMs?: number;
}

/** Options of a call of a leased tool. */
export interface ExecuteOptions {
  /** With all that it takes to lease the tool; 30 s by default. */
  readonly timeoutMs?: number;
  /** A repeated call of the same task with the same key has the same result. */
  readonly idempotencyKey?: string;
  readonly onProgress?: (text: string) => void;
  readonly signal?: AbortSignal;
}

interface Held {
  readonly found: FoundTool;
  readonly leaseId: string;
  readonly ends: number;
}

/** A tool to execute, from `ToolClient.lease`. Several calls may be in progress at a time. Release it, or use `await using`. */
export class LeasedTool {
  #role: string;
  #held: Held | undefined;
  #leasing: Promise<Held> | undefined;
  #isReleased = false;
  readonly #durationMs: number;

  constructor(
    readonly mesh: ToolMesh,
    readonly name: string,
    readonly options: LeaseOptions = {},
  ) {
    this.#role = options.role ?? "";
    this.#durationMs = options.durationMs ?? LEASE_MS;
  }

  /** The instance that the tool is leased from now; undefined before the first call. */
  get owner(): FoundTool | undefined {
    return this.#held?.found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Ends the lease, within two seconds; if the owner is not reachable, it expires. Idempotent. */
  async release(): Promise<void> {
    this.#isReleased = true;
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined) return;
    await this.mesh
      .peer(held.found)
      .revoke(held.leaseId)
      .catch((error: unknown) => log("debug", `the lease of tool ${this.name} was not released: ${asError(error).message}`));
  }

  /**
   * Executes a call. A failure of the tool itself is a result. Another instance gets the call only if the one before has
   * certainly not begun it, or if the tool is idempotent. Throws NotFound if no instance shares the tool.
   */
  async execute(args: Readonly<Record<string, unknown>>, options: ExecuteOptions = {}): Promise<SharedToolResult> {
    const { timeoutMs = CALL_MS, idempotencyKey = "", onProgress, signal } = options;
    if (this.#isReleased) throw new FailedPrecondition(`the lease of tool ${this.name} was released`);
    if (!(timeoutMs > 0)) throw new InvalidArgument("the timeout of a call must be above 0");
    const argumentsJson = encodeArguments(args);
    const deadline = now() + timeoutMs;
    const avoided = new Set<string>();
    for (let tried = 1; ; tried += 1) {
      const held = await this.#lease(deadline, avoided, signal);
      const left = deadline - now();
      if (left <= 0) throw this.#late();
      const { found, leaseId } = held;
      try {
        const peer = this.mesh.peer(found);
        return await peer.execute({ leaseId, argumentsJson, timeoutMs: left, idempotencyKey, onProgress, signal });
      } catch (raised) {
        const error = asError(raised);
        if (this.#held === held && ["UNAVAILABLE", "NOT_FOUND", "UNKNOWN"].includes(error.code)) this.#held = undefined;
        const notBegun = wasNotBegun(error);
        if (error.reason === "LEASE_EXPIRED" && notBegun) {
          if (tried < MAX_TRIES) continue;
        } else if (["UNAVAILABLE", "NOT_FOUND", "UNKNOWN"].includes(error.code)) {
          avoided.add(found.instanceId);
          if (tried < MAX_TRIES && (notBegun || found.tool.idempotent)) continue;
        }
        throw error;
      }
    }
  }

  /** Returns the lease that is held, or a new one at the best instance that is not avoided; one at a time. */
  async #lease(deadline: number, avoided: Set<string>, signal?: AbortSignal): Promise<Held> {
    while (this.#leasing !== undefined) await this.#leasing.catch(() => undefined);
    const held = this.#held;
    if (held !== undefined && held.ends - now() > Math.min(RENEW_EARLY, this.#durationMs / 2)) return held;
    this.#held = undefined;
    this.#leasing = this.#leaseAnew(deadline, avoided, held, signal);
    try {
      this.#held = await this.#leasing;
      return this.#held;
    } finally {
      this.#leasing = undefined;
    }
  }

  async #leaseAnew(deadline: number, avoided: Set<string>, held: Held | undefined, signal?: AbortSignal): Promise<Held> {
    let last: ArchonError | undefined;
    for (const found of await this.#owners(deadline, avoided, held)) {
      const left = deadline - now();
      if (left <= 0) throw this.#late();
      try {
        const peer = this.mesh.peer(found);
        const { task } = this.options;
        const leaseId = await peer.lease(this.name, task, this.mesh.instanceId, this.#durationMs, left, signal);
        this.#role ||= found.role; // another role's tool of this name may do another thing
        return { found, leaseId, ends: now() + this.#durationMs };
      } catch (raised) {
        last = asError(raised);
        if (signal?.aborted || !GONE.includes(last.code)) throw last;
        avoided.add(found.instanceId);
      }
    }
    throw last ?? this.#missing(avoided);
  }

  /** Returns the instances to ask for a lease: of the first role that has the tool, unless a role is named. */
  async #owners(deadline: number, avoided: Set<string>, held: Held | undefined): Promise<FoundTool[]> {
    const query = { name: this.name, role: this.#role };
    const timeoutMs = Math.max(100, deadline - now());
    let found = await this.mesh.find(query, { fresh: avoided.size > 0, timeoutMs });
    if (found.length === 0 && avoided.size === 0) found = await this.mesh.find(query, { fresh: true, timeoutMs });
    const usable = found.filter((each) => each.address && !avoided.has(each.instanceId));
    const owners = usable.filter((each) => each.role === usable[0]?.role);
    const { task } = this.options;
    if (task !== undefined && owners[0] !== undefined && !owners[0].tool.idempotent) {
      // Each attempt asks the same instance first, which knows what an earlier one has done.
      const rank = ({ instanceId }: FoundTool): string =>
        createHash("sha256").update(`${task.taskId}:${instanceId}`).digest("hex");
      owners.sort((one, other) => (rank(one) < rank(other) ? -1 : 1));
    }
    const earlier = held?.found.instanceId; // its result of an earlier call with the same key is there
    return owners.sort((one, other) => Number(other.instanceId === earlier) - Number(one.instanceId === earlier));
  }

  #missing(avoided: Set<string>): ArchonError {
    const whose = this.#role ? ` of role ${this.#role}` : "";
    if (avoided.size > 0) {
      return new Unavailable(`no other instance${whose} shares tool '${this.name}'`, { kind: "tool.network" });
    }
    return new NotFound(`no live instance${whose} shares a tool '${this.name}'`, { metadata: { tool: this.name } });
  }

  #late(): DeadlineExceeded {
    return new DeadlineExceeded(`no answer of tool ${this.name} in time`, { kind: "tool.timeout" });
  }
}
