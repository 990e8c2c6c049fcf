/** The limits that an orchestrator sets with Open, kept within the bounds of the agent. */
import type { Open } from "../api/archon/api/agent/v1/session_pb.js";
import { now } from "../context.js";
import { invalidField } from "../errors.js";
import { toMs } from "../wire.js";
import { MAX_ID, StreamRefused } from "./rejections.js";

export const PROTOCOL = 1;

/** Milliseconds that a stream may stay without Open. */
export const OPEN_TIMEOUT = 10_000;

/** Milliseconds that the last frames of a stream may wait to be read. */
export const UNREAD_TIMEOUT = 5_000;

/** The least that an orchestrator must take in one message: failures and deltas must fit. */
const LEAST_MESSAGE_BYTES = 128 * 1024;

/** Milliseconds, if Open sets no other value: longer than any run. */
export const DEFAULT_PARK_TTL = 25 * 3_600_000;
const MAX_PARK_TTL = 7 * 86_400_000;

export const DEFAULT_SILENCE_LIMIT = 2_000;

/** An orchestrator is believed to be gone after five silence limits. */
const MAX_SILENCE_LIMIT = 60_000;

/** Milliseconds after a lower credit in which tasks still count against the earlier one: they may have been on their way. */
const LOWERED_GRACE = 2_000;

/** Throws if an Open is not for this instance, of another protocol, or sets a limit that is too low. */
export function checkOpen(open: Open, instanceId: string): void {
  if (open.instanceId !== instanceId) {
    throw new StreamRefused(`this is ${instanceId}, not ${open.instanceId.slice(0, MAX_ID)}`, {
      reason: "WRONG_INSTANCE",
      metadata: { instance_id: instanceId },
    });
  }
  if (open.protocol < PROTOCOL) {
    throw new StreamRefused(`this agent speaks protocol ${PROTOCOL}, the orchestrator ${open.protocol}`, {
      reason: "PROTOCOL_MISMATCH",
    });
  }
  if (open.orchestratorId.length === 0 || open.orchestratorId.length > MAX_ID) {
    throw invalidField("open.orchestrator_id", `must name the orchestrator's process in 1 to ${MAX_ID} characters`);
  }
  if (open.maxMessageBytes !== 0n && open.maxMessageBytes < LEAST_MESSAGE_BYTES) {
    throw invalidField("open.max_message_bytes", `at least ${LEAST_MESSAGE_BYTES}`);
  }
}

/** Milliseconds for which results are parked. */
export function parkTtl(open: Open): number {
  return open.parkTtl === undefined ? DEFAULT_PARK_TTL : Math.min(MAX_PARK_TTL, Math.max(0, toMs(open.parkTtl)));
}

/** Milliseconds without a frame after which a session counts as lost. */
export function silenceLimit(open: Open): number {
  if (open.silenceLimit === undefined) return DEFAULT_SILENCE_LIMIT;
  return Math.min(MAX_SILENCE_LIMIT, Math.max(0, toMs(open.silenceLimit)));
}

/** The number of tasks that a session may have in flight beside other sessions. */
export class ShareWindow {
  #share = 0;
  #earlier = 0;
  #loweredAt = Number.NEGATIVE_INFINITY;

  /** Sets the session's share of the capacity. */
  set(share: number): void {
    if (share < this.#share) [this.#earlier, this.#loweredAt] = [this.allowed, now()];
    this.#share = share;
  }

  /** The share, or the earlier one if it was lowered a moment ago. */
  get allowed(): number {
    const lately = now() - this.#loweredAt < LOWERED_GRACE;
    return lately ? Math.max(this.#share, this.#earlier) : this.#share;
  }
}
