/** Client of the shared memory graph: the answers that roles have published in a scope. */
import { randomUUID } from "node:crypto";
import type { MemoryItem as ItemMessage } from "../api/archon/api/memory/v1/memory_pb.js";
import { MemoryGraphService } from "../api/archon/api/memory/v1/memory_graph_service_pb.js";
import { policyFromProto, policyToProto, type PropagationPolicy } from "../agent/values.js";
import { Channel, type CallOptions, type ChannelSettings } from "../channel.js";
import { InvalidArgument, type ArchonError } from "../errors.js";
import { backoff, isTransient, pause } from "../registry/retry.js";
import { MEMORY } from "../security/peer.js";
import { asError } from "../status.js";
import { byteLength, durationOf, toMs, withoutSurrogates } from "../wire.js";

const CALL_MS = 10_000;
const MAX_TEXT = 4 * 1024 * 1024;

/** The last answer of one role in a scope, or of one of its tasks. */
export interface MemoryItem {
  readonly role: string;
  readonly text: string;
  /** Counts from 1 per scope and role and never goes back. */
  readonly version: number;
  /** When it was published, in milliseconds since the Unix epoch. */
  readonly timeMs: number;
  readonly policy: PropagationPolicy;
  readonly metadata: Readonly<Record<string, string>>;
  /** The run that published it; empty if none did. */
  readonly runId: string;
  readonly taskId: string;
}

/** One message of a watch. A snapshot replaces all earlier items. */
export interface MemoryChange {
  readonly items: readonly MemoryItem[];
  readonly snapshot: boolean;
}

/** What is published besides the text. */
export interface PublishOptions extends CallOptions {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly policy?: PropagationPolicy;
  /** How long the item lives; by default for ever. */
  readonly ttlMs?: number;
  /** With it a repeated call publishes once; by default only the retries within this call do. */
  readonly requestId?: string;
}

function itemFromProto(message: ItemMessage): MemoryItem {
  return {
    role: message.sourceRole,
    text: message.content,
    version: Number(message.version),
    timeMs: toMs(message.publishTime),
    policy: policyFromProto(message.policy),
    metadata: { ...message.metadata },
    runId: message.origin?.runId ?? "",
    taskId: message.taskId,
  };
}

/** A connection to the memory service at `host:port` for one scope: the id of a session or of a run. */
export class MemoryGraphClient {
  readonly #channel: Channel;
  #isClosed = false;

  constructor(
    target: string,
    readonly scope: string,
    settings: ChannelSettings = {},
  ) {
    this.#channel = new Channel(target, MEMORY, settings);
  }

  /** Closes the connection. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Replaces the role's item by one of the next version, and returns that; 0 if the text is blank. */
  async publish(role: string, text: string, options: PublishOptions = {}): Promise<number> {
    const { metadata = {}, policy = "final_response_only", ttlMs, requestId = randomUUID(), ...call } = options;
    const size = byteLength(text);
    if (size > MAX_TEXT) {
      throw new InvalidArgument(`the item has ${size} bytes, more than the limit of ${MAX_TEXT}`, {
        reason: "MESSAGE_TOO_LARGE",
        metadata: { size: `${size}`, limit: `${MAX_TEXT}` },
      });
    }
    const item = {
      role,
      content: withoutSurrogates(text),
      metadata: { ...metadata },
      policy: policyToProto(policy),
      ...(ttlMs !== undefined && { ttl: durationOf(ttlMs) }),
    };
    const request = { scope: this.scope, items: [item], requestId };
    const answer = await this.#channel.unary(MemoryGraphService.method.publishItems, request, limited(call));
    return Number(answer.published[0]?.version ?? 0n);
  }

  /** Returns the items of the role's direct predecessors, in dependency order; of all ancestors with `allAncestors`. */
  async pull(role: string, options: CallOptions & { allAncestors?: boolean } = {}): Promise<MemoryItem[]> {
    const { allAncestors = false, ...call } = options;
    const request = { scope: this.scope, role, allAncestors };
    const answer = await this.#channel.unary(MemoryGraphService.method.pullItems, request, limited(call));
    return answer.items.map(itemFromProto);
  }

  /** Deletes all items of the scope and returns how many there were; their versions continue. */
  async clear(call: CallOptions = {}): Promise<number> {
    const { scope } = this;
    return (await this.#channel.unary(MemoryGraphService.method.clearItems, { scope }, limited(call))).cleared;
  }

  /** Yields a snapshot, which may be empty, then each published item. After an outage it yields a new snapshot. */
  async *watch({ signal }: { signal?: AbortSignal } = {}): AsyncGenerator<MemoryChange, void, undefined> {
    for (let attempt = 0; ; attempt += 1) {
      let failure: ArchonError | undefined;
      try {
        const request = { scope: this.scope };
        for await (const message of this.#channel.serverStream(MemoryGraphService.method.watchItems, request, { signal })) {
          attempt = 0;
          yield { items: message.items.map(itemFromProto), snapshot: message.snapshot };
        }
      } catch (error) {
        failure = asError(error);
        if (this.#isClosed || signal?.aborted || !isTransient(failure)) throw failure;
      }
      await pause(backoff(attempt, failure, 1_000), signal);
    }
  }
}

function limited(call: CallOptions): CallOptions {
  return { ...call, timeoutMs: call.timeoutMs ?? CALL_MS };
}
