/** Client of the registry service. */
import { randomBytes } from "node:crypto";
import type { Edge as EdgeMessage } from "../api/archon/api/common/v1/common_pb.js";
import type { Graph as GraphMessage } from "../api/archon/api/registry/v1/registry_pb.js";
import { RegistryService, WatchKind, type WatchResponse } from "../api/archon/api/registry/v1/registry_service_pb.js";
import { policyFromProto, policyToProto, type PropagationPolicy } from "../agent/values.js";
import { Channel, type CallOptions, type ChannelSettings } from "../channel.js";
import type { ArchonError } from "../errors.js";
import { meshIdMetadata } from "../meshId.js";
import { REGISTRY } from "../security/peer.js";
import { asError } from "../status.js";
import { toInt64, toMs } from "../wire.js";
import { Keepalive } from "./keepalive.js";
import { registrationFromProto, registrationToProto, type Registration } from "./registration.js";
import { CALL_TIMEOUT_MS, CLOSE_TIMEOUT_MS, RegistrationHandle, type Lease } from "./registrationHandle.js";
import { backoff, isTransient, pause } from "./retry.js";

/** Milliseconds that `register` waits for the registry before it continues in the background. */
const REGISTER_TIMEOUT_MS = 10_000;
const PAGE = 1_000;

/** An edge between two roles. */
export interface Edge {
  readonly upstream: string;
  readonly downstream: string;
  readonly policy?: PropagationPolicy;
  readonly pinned?: boolean;
  readonly declaredBy?: readonly string[];
}

/** Roles in topological order, and the edges between them, at one revision of the registry. */
export interface Graph {
  readonly roles: readonly string[];
  readonly edges: readonly Edge[];
  readonly revision: number;
}

/** One change. In a snapshot `instances` are all live instances; otherwise they are new or changed. */
export interface RegistryChange {
  readonly revision: number;
  readonly snapshot: boolean;
  readonly instances: readonly Registration[];
  readonly removed: readonly string[];
  readonly graph: Graph | undefined;
}

/** What to resolve, besides the role or the capability. */
export interface ResolveOptions extends CallOptions {
  /** May end in `.*`. */
  readonly version?: string;
  readonly tags?: Readonly<Record<string, string>>;
}

export function edgeFromProto({ upstream, downstream, policy, pinned, declaredBy }: EdgeMessage): Edge {
  return { upstream, downstream, policy: policyFromProto(policy), pinned, declaredBy };
}

function graphFromProto(message: GraphMessage | undefined): Graph {
  return {
    roles: message?.roles ?? [],
    edges: (message?.edges ?? []).map(edgeFromProto),
    revision: Number(message?.revision ?? 0n),
  };
}

/** A connection to the registry at `host:port`. Close it; that ends its registrations, which are its own. */
export class RegistryClient {
  readonly #channel: Channel;
  readonly #keepalive: Keepalive;
  readonly #token = randomBytes(24).toString("base64url");
  readonly #onRegistered: (keysJson: string, tenant: string) => void;
  #closed: Promise<void> | undefined;

  constructor(
    readonly target: string,
    settings: ChannelSettings & { onRegistered?: (keysJson: string, tenant: string) => void } = {},
  ) {
    this.#channel = new Channel(target, REGISTRY, settings);
    this.#keepalive = new Keepalive(this.#channel, this.#token);
    this.#onRegistered = settings.onRegistered ?? ((): void => undefined);
  }

  /** Deregisters all registrations, within about two seconds, and closes the connection. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await Promise.all(this.#keepalive.handles().map((handle) => handle.close()));
    this.#keepalive.close();
    this.#channel.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Registers, and keeps the registration alive until the handle is closed. Throws errors that are not transient. If the
   * registry is unreachable for `timeoutMs` it returns a handle that is not registered yet, and continues in the background.
   */
  async register(registration: Registration, { timeoutMs = REGISTER_TIMEOUT_MS } = {}): Promise<RegistrationHandle> {
    registrationToProto(registration); // throws if it cannot be encoded
    const handle = new RegistrationHandle(registration, {
      register: (content, signal) => this.#register(content, signal),
      deregister: (instanceId) => this.#deregister(instanceId),
      onLeased: () => undefined,
    });
    handle.start();
    this.#keepalive.add(handle);
    try {
      await handle.firstAnswer(timeoutMs);
    } catch (error) {
      this.#keepalive.remove(handle);
      await handle.abandon();
      throw error;
    }
    return handle;
  }

  /** Returns the live instances of a role, or with a capability, newest version first. */
  async resolve(target: { role: string } | { capability: string }, options: ResolveOptions = {}): Promise<Registration[]> {
    const { version = "", tags = {}, ...call } = options;
    const request = {
      version,
      tags: { ...tags },
      target:
        "role" in target
          ? ({ case: "role", value: target.role } as const)
          : ({ case: "capability", value: target.capability } as const),
    };
    const answer = await this.#channel.unary(RegistryService.method.resolveInstances, request, limited(call));
    return answer.instances.map(registrationFromProto);
  }

  /** Returns all live instances, sorted by role and id; the timeout applies to each page. */
  async listInstances(role = "", call: CallOptions = {}): Promise<Registration[]> {
    const instances: Registration[] = [];
    for (let pageToken = ""; ; ) {
      const request = { pageSize: PAGE, pageToken, role };
      const page = await this.#channel.unary(RegistryService.method.listInstances, request, limited(call));
      instances.push(...page.instances.map(registrationFromProto));
      pageToken = page.nextPageToken;
      if (!pageToken) return instances;
    }
  }

  /** Returns the current graph of roles. */
  async getGraph(call: CallOptions = {}): Promise<Graph> {
    return graphFromProto((await this.#channel.unary(RegistryService.method.getGraph, {}, limited(call))).graph);
  }

  /** Pins edges, all or none. Throws FailedPrecondition / CYCLE with the path in `metadata.cycle`. */
  async pinEdges(edges: readonly Edge[], call: CallOptions = {}): Promise<Graph> {
    const request = { edges: edges.map(edgeToProto) };
    return graphFromProto((await this.#channel.unary(RegistryService.method.pinEdges, request, limited(call))).graph);
  }

  /** Unpins edges; edges that are not pinned are ignored. */
  async unpinEdges(edges: readonly Edge[], call: CallOptions = {}): Promise<Graph> {
    const request = { edges: edges.map(edgeToProto) };
    return graphFromProto((await this.#channel.unary(RegistryService.method.unpinEdges, request, limited(call))).graph);
  }

  /**
   * Yields a snapshot, or the changes since `fromRevision`, then every change. It does not end by itself: after an outage it
   * reconnects and resumes. Throws errors that are not transient.
   */
  async *watch(
    options: { kinds?: readonly ("instances" | "edges")[]; fromRevision?: number; signal?: AbortSignal } = {},
  ): AsyncGenerator<RegistryChange, void, undefined> {
    const { kinds = [], fromRevision = 0, signal } = options;
    const numbers = kinds.map((kind) => (kind === "instances" ? WatchKind.INSTANCES : WatchKind.EDGES));
    let revision = toInt64(fromRevision, "fromRevision");
    for (let attempt = 0; ; attempt += 1) {
      let failure: ArchonError | undefined;
      let parts: WatchResponse[] = [];
      try {
        const request = { kinds: numbers, fromRevision: revision };
        const call = { signal, metadata: meshIdMetadata() };
        for await (const message of this.#channel.serverStream(RegistryService.method.watch, request, call)) {
          parts.push(message);
          if (message.revision === 0n) continue; // a part of a change that is too large for one message
          [revision, attempt] = [message.revision, 0];
          yield changeOf(parts, message);
          parts = [];
        }
      } catch (error) {
        failure = asError(error);
        if (this.#closed !== undefined || signal?.aborted || !isTransient(failure)) throw failure;
      }
      await pause(backoff(attempt, failure, 1_000), signal);
    }
  }

  async #register(registration: Registration, signal: AbortSignal): Promise<Lease> {
    const request = { registration: registrationToProto(registration), token: this.#token };
    const call = { timeoutMs: CALL_TIMEOUT_MS, metadata: meshIdMetadata(), signal };
    const answer = await this.#channel.unary(RegistryService.method.registerInstance, request, call);
    this.#onRegistered(answer.keysJson, answer.registration?.tenant ?? "");
    return { ttlMs: toMs(answer.ttl), refusedCycles: answer.refusedEdges.map((edge) => edge.cycle) };
  }

  async #deregister(instanceId: string): Promise<void> {
    for (const handle of this.#keepalive.handles()) if (handle.instanceId === instanceId) this.#keepalive.remove(handle);
    const request = { instanceId, token: this.#token };
    await this.#channel.unary(RegistryService.method.deregisterInstance, request, { timeoutMs: CLOSE_TIMEOUT_MS });
  }
}

function limited(call: CallOptions): CallOptions {
  return { timeoutMs: CALL_TIMEOUT_MS, ...call };
}

function edgeToProto({ upstream, downstream, policy = "final_response_only" }: Edge): {
  upstream: string;
  downstream: string;
  policy: ReturnType<typeof policyToProto>;
} {
  return { upstream, downstream, policy: policyToProto(policy) };
}

function changeOf(parts: readonly WatchResponse[], last: WatchResponse): RegistryChange {
  return {
    revision: Number(last.revision),
    snapshot: parts[0]?.snapshot ?? false,
    instances: parts.flatMap((part) => part.instances.map(registrationFromProto)),
    removed: last.removedInstanceIds,
    graph: last.graph === undefined ? undefined : graphFromProto(last.graph),
  };
}
