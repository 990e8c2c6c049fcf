/** Keeps all leases of a client alive on one stream, which is opened again after any outage. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { ClientDuplexStream } from "@grpc/grpc-js";
import {
  KeepAliveRequestSchema,
  KeepAliveResponseSchema,
  RegistryService,
} from "../api/archon/api/registry/v1/registry_service_pb.js";
import type { Channel } from "../channel.js";
import { now, outsideOfCalls } from "../context.js";
import { log } from "../log.js";
import { connectionText } from "../status.js";
import { toMs } from "../wire.js";
import type { RegistrationHandle } from "./registrationHandle.js";
import { backoff } from "./retry.js";

/** Leases in one message. */
const MAX_LEASES = 1_000;

/** Milliseconds between two looks for leases that are due. */
const TICK = 50;

/** Renews the lease of each handle every third of its duration. Renewals due at the same time share a message. */
export class Keepalive {
  readonly #handles = new Map<RegistrationHandle, number>();
  #stream: ClientDuplexStream<Uint8Array, Buffer> | undefined;
  #pending: { handles: RegistrationHandle[]; sent: number; until: number }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #notBefore = 0;
  #failures = 0;
  #opened = 0;
  #logged = "";

  constructor(
    readonly channel: Channel,
    readonly token: string,
  ) {}

  /** Renews the handle whenever it has a lease. */
  add(handle: RegistrationHandle): void {
    this.#handles.set(handle, 0);
    this.#timer ??= outsideOfCalls(() => setInterval(() => this.#tick(), TICK).unref());
  }

  /** Stops renewing the handle. */
  remove(handle: RegistrationHandle): void {
    this.#handles.delete(handle);
  }

  /** The handles that are renewed. */
  handles(): RegistrationHandle[] {
    return [...this.#handles.keys()];
  }

  /** Stops renewing: leases expire unless their instances are deregistered. Idempotent. */
  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#stream?.cancel();
    this.#stream = undefined;
  }

  #tick(): void {
    const time = now();
    const late = this.#pending[0];
    if (late !== undefined && time > late.until) this.#break("no answer in time");
    for (const handle of this.#handles.keys()) handle.lapse();
    if (time < this.#notBefore) return;
    const due = [...this.#handles].filter(([handle, named]) => {
      return handle.hasLease && Math.max(handle.renewed, named) + handle.ttlMs / 3 <= time + handle.ttlMs / 30;
    });
    for (let start = 0; start < due.length; start += MAX_LEASES) {
      this.#renew(due.slice(start, start + MAX_LEASES).map(([handle]) => handle));
    }
  }

  #renew(handles: RegistrationHandle[]): void {
    const sent = now();
    for (const handle of handles) this.#handles.set(handle, sent);
    const least = Math.min(...handles.map((handle) => handle.ttlMs));
    this.#pending.push({ handles, sent, until: sent + Math.max(1_000, least / 3) });
    const request = create(KeepAliveRequestSchema, {
      instanceIds: handles.map((handle) => handle.instanceId),
      tokens: handles.map(() => this.token),
    });
    try {
      this.#open().write(toBinary(KeepAliveRequestSchema, request));
    } catch (error) {
      this.#break((error as Error).message);
    }
  }

  #open(): ClientDuplexStream<Uint8Array, Buffer> {
    if (this.#stream !== undefined) return this.#stream;
    const stream = this.channel.duplex(RegistryService.method.keepAlive);
    this.#stream = stream;
    this.#opened = now();
    stream.on("data", (bytes: Buffer) => this.#answered(stream, bytes));
    stream.on("status", ({ details }: { details: string }) => {
      if (this.#stream === stream) this.#break(connectionText(details) || "the registry has ended it");
    });
    return stream;
  }

  #answered(stream: ClientDuplexStream<Uint8Array, Buffer>, bytes: Buffer): void {
    const waiting = this.#stream === stream ? this.#pending.shift() : undefined;
    if (waiting === undefined) return;
    const left = new Map<string, number>();
    try {
      for (const lease of fromBinary(KeepAliveResponseSchema, bytes).leases) {
        left.set(lease.instanceId, lease.expired ? 0 : toMs(lease.ttl));
      }
    } catch {
      this.#break("an answer cannot be decoded");
      return;
    }
    this.#failures = 0;
    this.#logged = "";
    for (const handle of waiting.handles) {
      if (this.#handles.has(handle)) handle.renewal(waiting.sent, left.get(handle.instanceId) ?? 0);
    }
  }

  #break(why: string): void {
    const stream = this.#stream;
    this.#stream = undefined;
    for (const { handles } of this.#pending) for (const handle of handles) if (this.#handles.has(handle)) this.#handles.set(handle, 0);
    this.#pending = [];
    stream?.cancel();
    if (why !== this.#logged) log("info", `the keepalive stream broke, opening another: ${why}`);
    this.#logged = why;
    if (now() - this.#opened > 5_000) this.#failures = 0;
    this.#notBefore = now() + backoff(this.#failures, undefined, 500);
    this.#failures += 1;
  }
}
