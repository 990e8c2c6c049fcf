/** Notices that no orchestrator can dial an agent: it is behind NAT, or in another cluster. */
import { setTimeout as sleep } from "node:timers/promises";
import { Health } from "../api/grpc/health/v1/health_pb.js";
import { Channel } from "../channel.js";
import { ORCHESTRATOR } from "../security/peer.js";
import { asError } from "../status.js";

/** Milliseconds that an orchestrator has to dial an agent that has registered; it does so at once if it can. */
const UNREACHED_AFTER = 10_000;

/** Milliseconds that a call of an orchestrator may take. */
const PROBE_TIMEOUT = 2_000;

/** The part of an agent that tells whether it can be dialled. */
export interface Reachable {
  isRegistered(): boolean;
  /** Whether an orchestrator has opened a session. */
  isReached(): boolean;
}

/**
 * Waits until it is known whether an agent can be dialled. Returns true if it is registered, the orchestrator at `target`
 * (host:port) has been answering for UNREACHED_AFTER, and none has reached the agent; false as soon as one has, or the signal is
 * aborted.
 */
export async function unreached(target: string, agent: Reachable, signal: AbortSignal): Promise<boolean> {
  for (let hasAnswered = false; ; ) {
    await sleep(UNREACHED_AFTER, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted || agent.isReached()) return false;
    const isThere = agent.isRegistered() && (await answers(target, signal));
    if (hasAnswered && isThere) return !agent.isReached() && !signal.aborted;
    hasAnswered = isThere;
  }
}

/** Whether there is an orchestrator at an address: any answer to a call of it tells that. */
async function answers(target: string, signal: AbortSignal): Promise<boolean> {
  const channel = new Channel(target, ORCHESTRATOR);
  try {
    await channel.unary(Health.method.check, {}, { timeoutMs: PROBE_TIMEOUT, signal });
    return true;
  } catch (error) {
    return !["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"].includes(asError(error).code);
  } finally {
    channel.close();
  }
}
