/**
 * gRPC channels and all gRPC options: message sizes, keepalive, reconnect, retry. Calls carry the deadline, the trace and the
 * credentials, and throw ArchonErrors.
 *
 * Between services of the mesh keepalive detects a frozen peer within seconds. Channels to agents ping at most once a minute,
 * because a Go or Java server with default settings closes connections that are pinged more often.
 */
import {
  create,
  type DescMethodBiDiStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  Client,
  credentials as grpcCredentials,
  Metadata,
  type ChannelOptions,
  type ClientDuplexStream,
  type ServiceError,
} from "@grpc/grpc-js";
import { isIP } from "node:net";
import { currentTrace, remainingMs } from "./context.js";
import { ArchonError, DeadlineExceeded, OperationCancelled } from "./errors.js";
import { asBuffer, decoder, encoder, pathOf } from "./grpc.js";
import { hostOf } from "./loopback.js";
import { dnsNameOf, type CertificateFolder, type OwnCertificate } from "./security/certificates.js";
import { certificateFor, certified, credentialsFor, type CallCredentials } from "./security/credentials.js";
import { audienceOf, type Peer } from "./security/peer.js";
import { fromServiceError } from "./status.js";
import { rpcSpan } from "./telemetry/spans.js";

/** The largest message that gRPC takes: well above `MAX_CHECKED_BYTES`, which is refused with a typed error. */
export const MAX_RECEIVE_BYTES = 16 * 1024 * 1024;

/** The largest message that is taken from an agent: one above the limit of a frame fails its task alone. */
export const MAX_AGENT_BYTES = 64 * 1024 * 1024;

/** Milliseconds that a unary call may take by default. */
export const DEFAULT_TIMEOUT_MS = 30_000;

const RETRIES = {
  name: [{}],
  retryPolicy: {
    maxAttempts: 4,
    initialBackoff: "0.1s",
    maxBackoff: "1s",
    backoffMultiplier: 2,
    retryableStatusCodes: ["UNAVAILABLE"],
  },
};

const COMMON: ChannelOptions = {
  "grpc.enable_http_proxy": 0, // gRPC would use the proxy of http_proxy, also to this machine; a mesh is never behind one
  "grpc.max_send_message_length": MAX_RECEIVE_BYTES,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.dns_min_time_between_resolutions_ms": 2_000,
  "grpc.service_config_disable_resolution": 1,
};

/** Options of channels to a service: full keepalive, and retries. Calls alternate between replicas behind a name. */
export function serviceOptions(target: string): ChannelOptions {
  const policy = isIP(hostOf(target)) !== 0 ? { pick_first: {} } : { round_robin: {} };
  return {
    ...COMMON,
    "grpc.max_receive_message_length": MAX_RECEIVE_BYTES,
    "grpc.keepalive_time_ms": 2_000,
    "grpc.keepalive_timeout_ms": 2_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.enable_retries": 1,
    "grpc.service_config": JSON.stringify({ loadBalancingConfig: [policy], methodConfig: [RETRIES] }),
  };
}

/** Options of channels to an agent, or of streams that are never sent again. `fresh` forces a connection of its own. */
export function agentOptions({ fresh = false } = {}): ChannelOptions {
  return {
    ...COMMON,
    "grpc.max_receive_message_length": MAX_AGENT_BYTES,
    "grpc.keepalive_time_ms": 60_000,
    "grpc.enable_retries": 0,
    ...(fresh ? { "grpc.use_local_subchannel_pool": 1 } : {}),
  };
}

/** Options of one call. */
export interface CallOptions {
  /** Milliseconds that the call may take; never more than what is left for the call being served. */
  timeoutMs?: number | undefined;
  /** Cancels the call. */
  signal?: AbortSignal | undefined;
}

/** A call of a channel: its limits, and metadata besides those of every call. */
export interface ChannelCall extends CallOptions {
  metadata?: readonly [string, string][];
}

/** Options of a connection. */
export interface ChannelSettings {
  options?: ChannelOptions;
  /** By default the token of this process or of the mesh on this machine. */
  credentials?: CallCredentials;
  /** The folder of the certificate; by default that of ARCHON_TLS, or of the mesh on this machine. */
  certificate?: CertificateFolder | undefined;
}

/** Returns the error of a signal that was aborted. */
export function abortError(signal: AbortSignal): ArchonError {
  const reason: unknown = signal.reason;
  if (reason instanceof ArchonError) return reason;
  if (reason instanceof Error && reason.name === "TimeoutError") return new DeadlineExceeded("the deadline passed");
  return new OperationCancelled("the call was cancelled");
}

/** Calls `cancel` when a signal is aborted. Returns a function that ends the waiting. */
export function onAbort(signal: AbortSignal | undefined, cancel: () => void): () => void {
  if (signal === undefined) return () => undefined;
  if (signal.aborted) {
    cancel();
    return () => undefined;
  }
  signal.addEventListener("abort", cancel, { once: true });
  return () => signal.removeEventListener("abort", cancel);
}

interface Connection {
  readonly client: Client;
  readonly madeOf: OwnCertificate | undefined;
  calls: number;
  isOld: boolean;
}

/** A connection to a member of the mesh at `host:port`, which is made at the first call. The caller closes it. */
export class Channel {
  readonly #options: ChannelOptions;
  readonly #credentials: CallCredentials;
  readonly #certificate: CertificateFolder | undefined;
  #connection: Connection | undefined;
  #isClosed = false;

  constructor(
    readonly target: string,
    readonly peer: Peer,
    settings: ChannelSettings = {},
  ) {
    const own = settings.credentials ?? credentialsFor(target, audienceOf(peer));
    this.#options = settings.options ?? serviceOptions(target);
    this.#certificate = settings.certificate ?? certificateFor(target);
    this.#credentials = this.#certificate === undefined ? own : certified(this.#certificate, own);
    this.#certificate?.read();
  }

  /** Makes a unary call. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    call: ChannelCall = {},
  ): Promise<MessageShape<O>> {
    if (call.signal?.aborted) throw abortError(call.signal);
    const message = create(method.input, request);
    return rpcSpan(pathOf(method), () => {
      const [metadata, timeoutMs] = this.#outgoing(call, DEFAULT_TIMEOUT_MS);
      const connection = this.#open();
      return new Promise<MessageShape<O>>((resolve, reject) => {
        let release = (): void => undefined;
        const pending = connection.client.makeUnaryRequest(
          pathOf(method),
          encoder(method.input),
          decoder(method.output),
          message,
          metadata,
          timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
          (error, response) => {
            release();
            this.#release(connection);
            if (call.signal?.aborted) reject(abortError(call.signal));
            else if (error !== null) reject(fromServiceError(error));
            else resolve(response as MessageShape<O>);
          },
        );
        release = onAbort(call.signal, () => pending.cancel());
      });
    });
  }

  /** Makes a call that is answered by a stream. Leaving the iteration cancels the call. It has no timeout by default. */
  async *serverStream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    call: ChannelCall = {},
  ): AsyncGenerator<MessageShape<O>, void, undefined> {
    if (call.signal?.aborted) throw abortError(call.signal);
    const [metadata, timeoutMs] = this.#outgoing(call, undefined);
    const connection = this.#open();
    const stream = connection.client.makeServerStreamRequest(
      pathOf(method),
      encoder(method.input),
      decoder(method.output),
      create(method.input, request),
      metadata,
      timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
    );
    stream.on("error", () => undefined); // the iteration throws it; one that comes later has no reader
    const release = onAbort(call.signal, () => stream.cancel());
    try {
      for await (const message of stream) yield message as MessageShape<O>;
      if (call.signal?.aborted) throw abortError(call.signal);
    } catch (error) {
      if (call.signal?.aborted) throw abortError(call.signal);
      throw error instanceof ArchonError ? error : fromServiceError(error as ServiceError);
    } finally {
      release();
      stream.cancel();
      this.#release(connection);
    }
  }

  /** Opens a stream of bytes in both directions, which the caller ends or cancels. */
  duplex(
    method: DescMethodBiDiStreaming,
    call: ChannelCall = {},
  ): ClientDuplexStream<Uint8Array, Buffer> {
    const [metadata, timeoutMs] = this.#outgoing(call, undefined);
    const connection = this.#open();
    const stream = connection.client.makeBidiStreamRequest<Uint8Array, Buffer>(
      pathOf(method),
      asBuffer,
      (bytes) => bytes,
      metadata,
      timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
    );
    stream.on("error", () => undefined);
    let isOver = false;
    stream.on("status", () => {
      if (!isOver) this.#release(connection);
      isOver = true;
    });
    const release = onAbort(call.signal, () => stream.cancel());
    stream.on("status", release);
    return stream;
  }

  /** Closes the connection; calls in progress are cancelled. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.#connection?.client.close();
    this.#connection = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #outgoing(call: ChannelCall, defaultMs: number | undefined): [Metadata, number | undefined] {
    const metadata = new Metadata();
    for (const [key, value] of call.metadata ?? []) metadata.add(key, value);
    for (const [key, value] of this.#credentials.metadata()) metadata.set(key, value);
    const { traceparent, tracestate } = currentTrace();
    if (traceparent && metadata.get("traceparent").length === 0) {
      metadata.set("traceparent", traceparent);
      if (tracestate) metadata.set("tracestate", tracestate);
    }
    const timeoutMs = call.timeoutMs ?? defaultMs;
    const left = remainingMs();
    return [metadata, left === undefined ? timeoutMs : Math.min(timeoutMs ?? left, left)];
  }

  /** Returns the connection for a call. A certificate that was replaced counts from the next call on. */
  #open(): Connection {
    if (this.#isClosed) throw new OperationCancelled("the connection is closed");
    const own = this.#certificate?.read();
    if (this.#connection === undefined || this.#connection.madeOf !== own) {
      const earlier = this.#connection;
      if (earlier !== undefined) {
        earlier.isOld = true;
        if (earlier.calls === 0) earlier.client.close();
      }
      this.#connection = { client: this.#connect(own), madeOf: own, calls: 0, isOld: false };
    }
    this.#connection.calls += 1;
    return this.#connection;
  }

  #connect(own: OwnCertificate | undefined): Client {
    if (own === undefined) return new Client(this.target, grpcCredentials.createInsecure(), this.#options);
    const secure = grpcCredentials.createSsl(own.authorities, own.key, own.chain);
    // The peer that the caller wants counts, not the address, which may come from a registration.
    const name = dnsNameOf(this.peer, own.identity);
    return new Client(this.target, secure, { ...this.#options, "grpc.ssl_target_name_override": name });
  }

  #release(connection: Connection): void {
    connection.calls -= 1;
    if (connection.isOld && connection.calls === 0) connection.client.close();
  }
}
