/** Client of shared tools: finds them, leases them, and executes them where they live. */
import { now } from "../../context.js";
import type { ArchonError } from "../../errors.js";
import { RegistryClient } from "../../registry/client.js";
import type { Registration } from "../../registry/registration.js";
import { credentialsFor } from "../../security/credentials.js";
import { asError } from "../../status.js";
import { sharedBy, type FoundTool, type ToolQuery } from "./find.js";
import { LeasedTool, type LeaseOptions, type ToolMesh } from "./leasedTool.js";
import { ToolPeer } from "./peer.js";

/** Instances that a client stays connected with. */
const MAX_PEERS = 64;

/** Milliseconds for which a list of the registry answers further questions. */
const FRESH_MS = 5_000;

/** Milliseconds for each call of the registry. */
const FIND_MS = 5_000;

/**
 * Finds, leases and executes the tools that instances of the mesh share. `registry` is host:port, or a client, which the caller
 * closes. `instanceId` names this process in the logs of owners. Close it, or use it with `await using`.
 */
export class ToolClient implements ToolMesh {
  readonly instanceId: string;
  readonly #registry: RegistryClient;
  readonly #isOwn: boolean;
  readonly #peers = new Map<string, ToolPeer>();
  readonly #listed = new Map<string, { at: number; instances: Registration[] }>();
  #failure: { at: number; error: ArchonError } | undefined;

  constructor(registry: RegistryClient | string, { instanceId = "" } = {}) {
    this.instanceId = instanceId;
    this.#isOwn = typeof registry === "string";
    this.#registry = typeof registry === "string" ? new RegistryClient(registry) : registry;
  }

  /** Closes all connections. Leases that were not released expire. */
  async close(): Promise<void> {
    for (const peer of this.#peers.values()) peer.close();
    this.#peers.clear();
    if (this.#isOwn) await this.#registry.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Returns shared tools, best first, from a list that is at most 5 s old, or with `fresh` from a new one. */
  async find(query: ToolQuery = {}, { fresh = false, timeoutMs = FIND_MS } = {}): Promise<FoundTool[]> {
    return sharedBy(await this.#instances(query.role ?? "", fresh, timeoutMs), query);
  }

  /** Returns a tool to be leased at its first call: `await using tool = client.lease("calculator")`. */
  lease(name: string, options: LeaseOptions = {}): LeasedTool {
    return new LeasedTool(this, name, options);
  }

  /** @internal Returns the connection to the instance that shares a tool. */
  peer(owner: FoundTool): ToolPeer {
    const { address, role } = owner;
    const peer = this.#peers.get(address) ?? new ToolPeer(address, role, credentialsFor(this.#registry.target, "agents"));
    this.#peers.delete(address);
    this.#peers.set(address, peer);
    for (const [oldest, each] of this.#peers) {
      if (this.#peers.size <= MAX_PEERS) break;
      this.#peers.delete(oldest);
      each.close();
    }
    return peer;
  }

  async #instances(role: string, fresh: boolean, timeoutMs: number): Promise<Registration[]> {
    const listed = this.#listed.get(role) ?? this.#listed.get("");
    if (!fresh && listed !== undefined && listed.at + FRESH_MS > now()) return listed.instances;
    // Several tools are looked for one after the other: an unreachable registry is waited for once.
    if (!fresh && this.#failure !== undefined && this.#failure.at + FRESH_MS > now()) throw this.#failure.error;
    try {
      const instances = await this.#registry.listInstances(role, { timeoutMs });
      this.#failure = undefined;
      if (this.#listed.size >= MAX_PEERS) this.#listed.clear();
      this.#listed.set(role, { at: now(), instances });
      return instances;
    } catch (raised) {
      const error = asError(raised);
      this.#failure = { at: now(), error };
      throw error;
    }
  }
}
