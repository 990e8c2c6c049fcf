/** Client of the working memory: JSON values that the tasks of a run share, each with a version. */
import type { WorkingValue } from "../api/archon/api/memory/v1/memory_pb.js";
import { WorkingMemoryService } from "../api/archon/api/memory/v1/working_memory_service_pb.js";
import { Channel, type CallOptions, type ChannelSettings } from "../channel.js";
import { Aborted, ArchonError } from "../errors.js";
import { backoff, isTransient, pause } from "../registry/retry.js";
import { MEMORY } from "../security/peer.js";
import { asError } from "../status.js";
import { jsonText, toInt64, toMs } from "../wire.js";

const CALL_TIMEOUT_MS = 10_000;
const MAX_UPDATES = 100;
const PAGE = 1_000;

/** A value with the number of writes of its key, from 1 on. */
export interface SharedValue {
  readonly key: string;
  readonly value: unknown;
  readonly version: number;
  /** Milliseconds since the Unix epoch. */
  readonly timeMs: number;
}

/** A change of a key: its present value, or undefined if it was deleted. */
export interface SharedChange {
  readonly key: string;
  readonly value: SharedValue | undefined;
}

function valueFromProto(message: WorkingValue): SharedValue {
  const value: unknown = JSON.parse(message.valueJson);
  return { key: message.key, value, version: Number(message.version), timeMs: toMs(message.updateTime) };
}

const connections = new Map<string, Channel>();

/** The values of one scope: the id of a run. */
export class WorkingMemoryClient {
  readonly #channel: Channel;

  constructor(
    target: string,
    readonly scope: string,
    settings: ChannelSettings & { channel?: Channel } = {},
  ) {
    this.#channel = settings.channel ?? new Channel(target, MEMORY, settings);
  }

  /** @internal Returns a client over the one connection of this process to a memory service. */
  static shared(target: string, scope: string): WorkingMemoryClient {
    let channel = connections.get(target);
    if (channel === undefined) {
      channel = new Channel(target, MEMORY);
      connections.set(target, channel);
    }
    return new WorkingMemoryClient(target, scope, { channel });
  }

  /** @internal Closes the connections that `shared` has made. */
  static closeShared(): void {
    for (const channel of connections.values()) channel.close();
    connections.clear();
  }

  /** Returns the value of a key; undefined if it has none. */
  async get(key: string, call: CallOptions = {}): Promise<unknown> {
    return (await this.getValue(key, call))?.value;
  }

  /** Returns the value of a key with its version; undefined if it has none. */
  async getValue(key: string, call: CallOptions = {}): Promise<SharedValue | undefined> {
    try {
      const answer = await this.#channel.unary(WorkingMemoryService.method.getValue, { scope: this.scope, key }, limited(call));
      return answer.value === undefined ? undefined : valueFromProto(answer.value);
    } catch (error) {
      if (error instanceof ArchonError && error.code === "NOT_FOUND") return undefined;
      throw error;
    }
  }

  /**
   * Writes a value and returns its version; with `expectedVersion` only if that is the current one (0: there is no value).
   * Throws Aborted / CONFLICT if it is not.
   */
  async set(key: string, value: unknown, { expectedVersion, ...call }: CallOptions & { expectedVersion?: number } = {}): Promise<number> {
    const request = {
      scope: this.scope,
      key,
      valueJson: jsonText(value),
      ...(expectedVersion !== undefined && { expectedVersion: toInt64(expectedVersion, "expectedVersion") }),
    };
    const answer = await this.#channel.unary(WorkingMemoryService.method.setValue, request, limited(call));
    return Number(answer.value?.version ?? 0n);
  }

  /** Replaces the value of a key by a function of it, again if another task writes in between; returns the new value. */
  async update<T>(key: string, change: (value: unknown) => T, call: CallOptions = {}): Promise<T> {
    for (let tried = 1; ; tried += 1) {
      const current = await this.getValue(key, call);
      const value = change(current?.value);
      try {
        await this.set(key, value, { ...call, expectedVersion: current?.version ?? 0 });
        return value;
      } catch (error) {
        if (!(error instanceof Aborted) || tried >= MAX_UPDATES) throw error;
      }
      await pause(Math.random() * Math.min(2 ** tried, 100), call.signal);
    }
  }

  /** Deletes a value; its versions continue. Returns whether there was one. */
  async delete(key: string, call: CallOptions = {}): Promise<boolean> {
    const answer = await this.#channel.unary(WorkingMemoryService.method.deleteValue, { scope: this.scope, key }, limited(call));
    return answer.deleted;
  }

  /** Returns the values whose keys begin with a prefix. */
  async list(prefix = "", call: CallOptions = {}): Promise<SharedValue[]> {
    const values: SharedValue[] = [];
    for (let pageToken = ""; ; ) {
      const request = { scope: this.scope, pageSize: PAGE, pageToken, prefix };
      const page = await this.#channel.unary(WorkingMemoryService.method.listValues, request, limited(call));
      values.push(...page.values.map(valueFromProto));
      pageToken = page.nextPageToken;
      if (!pageToken) return values;
    }
  }

  /** Yields the values whose keys begin with a prefix, then each change. It goes on after an outage. */
  async *watch(prefix = "", { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<SharedChange, void, undefined> {
    for (let attempt = 0; ; attempt += 1) {
      let failure: ArchonError | undefined;
      try {
        const request = { scope: this.scope, prefix };
        for await (const message of this.#channel.serverStream(WorkingMemoryService.method.watchValues, request, { signal })) {
          attempt = 0;
          for (const value of message.values) yield { key: value.key, value: valueFromProto(value) };
          for (const key of message.deletedKeys) yield { key, value: undefined };
        }
      } catch (error) {
        failure = asError(error);
        if (signal?.aborted || !isTransient(failure)) throw failure;
      }
      await pause(backoff(attempt, failure, 1_000), signal);
    }
  }

  /** Closes the connection. */
  close(): void {
    this.#channel.close();
  }
}

function limited(call: CallOptions): CallOptions {
  return { timeoutMs: CALL_TIMEOUT_MS, ...call };
}
