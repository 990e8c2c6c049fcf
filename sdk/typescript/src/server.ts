/**
 * The gRPC server of agents: guarded handlers, health, reflection, and graceful shutdown. Every RPC ends with a response or a
 * typed error, whatever its handler does; requests arrive as bytes and are decoded here.
 */
import {
  create,
  fromBinary,
  toBinary,
  type DescMethod,
  type DescService,
  type Message,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import {
  experimental,
  Server,
  ServerCredentials,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type UntypedHandleCall,
} from "@grpc/grpc-js";
import type { EventEmitter } from "node:events";
import { MAX_RECEIVE_BYTES } from "./channel.js";
import { ANONYMOUS, now, outsideOfCalls, serving, type CallContext } from "./context.js";
import { ArchonError, FailedPrecondition, OperationCancelled, Unavailable, Unimplemented } from "./errors.js";
import { asBuffer, pathOf, rawDefinition } from "./grpc.js";
import { HealthService } from "./health.js";
import { log } from "./log.js";
import { hostOf, isLoopback, withPort } from "./loopback.js";
import { checkMeshId, MESH_ID_KEY } from "./meshId.js";
import { DEFAULT_TENANT, type Principal } from "./principal.js";
import { reflectionServices } from "./reflection.js";
import type { Authenticator } from "./security/authenticator.js";
import { ownFolder, type CertificateFolder } from "./security/certificates.js";
import { asError, malformed, toServiceError } from "./status.js";

/** Milliseconds between two looks at the credentials of open streams. */
const CHECK_INTERVAL = 1_000;

type AnyCall =
  | ServerUnaryCall<Buffer, Buffer>
  | ServerWritableStream<Buffer, Buffer>
  | ServerDuplexStream<Buffer, Buffer>;

/** A call being served, as its handler sees it. */
export interface ServedCall {
  readonly context: CallContext;
  /** Is aborted when the caller has left. */
  readonly signal: AbortSignal;
}

/** Takes a stream of bytes in both directions; it ends or destroys the stream itself. */
export type StreamHandler = (stream: ServerDuplexStream<Buffer, Buffer>, call: ServedCall) => void;

/** The handlers of a service by the local names of its methods; methods without one answer UNIMPLEMENTED. */
export interface Service {
  readonly descriptor: DescService;
  readonly unary?: Readonly<Record<string, (request: never, call: ServedCall) => Promise<object> | object>>;
  readonly streaming?: Readonly<Record<string, (request: never, call: ServedCall) => AsyncIterable<object>>>;
  readonly duplex?: Readonly<Record<string, StreamHandler>>;
}

/** Serves services on host:port; port 0 picks a free one. */
export class GrpcServer {
  readonly health = new HealthService();
  readonly #servers: Server[] = [];
  readonly #open = new Map<(error: ArchonError) => void, Principal>();
  #checking: NodeJS.Timeout | undefined;
  #stopped: Promise<void> | undefined;
  port = 0;

  constructor(
    readonly services: readonly Service[],
    readonly host: string,
    readonly wanted: number,
    readonly authenticator: Authenticator,
  ) {}

  /** host:port where the server listens. */
  get address(): string {
    return withPort(this.host, this.port);
  }

  /** Binds the port and serves. Throws Unavailable if the port is taken. */
  async start(): Promise<string> {
    const certificate = ownFolder();
    checkListening(this.host, certificate !== undefined);
    const server = newServer();
    const all = [...this.services, this.health.service];
    for (const service of [...all, ...reflectionServices(all.map((each) => each.descriptor))]) this.#add(server, service);
    const secure = certificate === undefined ? ServerCredentials.createInsecure() : mutualTls(certificate);
    this.port = await bind(server, withPort(this.host, this.wanted), secure);
    this.#servers.push(server);
    if (certificate !== undefined) await this.#serveHealth();
    this.health.serve(["", ...this.services.map((each) => each.descriptor.typeName)]);
    this.#checking = setInterval(() => this.#checkStreams(), CHECK_INTERVAL).unref();
    return this.address;
  }

  /** Makes health report NOT_SERVING, so that clients send no new calls. */
  unhealthy(): void {
    this.health.shutDown();
  }

  /** Refuses new calls, gives calls in progress `graceMs`, then ends. Idempotent. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    clearInterval(this.#checking);
    this.unhealthy();
    await Promise.all(this.#servers.map((server) => shutDown(server, graceMs)));
  }

  /** Serves health alone on ARCHON_HEALTH_PORT, without TLS: probes of Kubernetes have no certificate. */
  async #serveHealth(): Promise<void> {
    const port = process.env["ARCHON_HEALTH_PORT"];
    if (!port) return;
    const server = newServer();
    this.#add(server, this.health.service);
    const wanted = /^\d+$/.test(port) ? withPort(this.host, Number(port)) : port;
    await bind(server, wanted, ServerCredentials.createInsecure());
    this.#servers.push(server);
  }

  #checkStreams(): void {
    for (const [end, principal] of this.#open) {
      try {
        this.authenticator.check(principal);
      } catch (error) {
        end(asError(error));
      }
    }
  }

  #add(server: Server, service: Service): void {
    const definition = Object.fromEntries(service.descriptor.methods.map((each) => [each.localName, rawDefinition(each)]));
    const handlers: Record<string, UntypedHandleCall> = {};
    for (const method of service.descriptor.methods) handlers[method.localName] = this.#handler(service, method);
    server.addService(definition, handlers);
  }

  #handler(service: Service, method: DescMethod): UntypedHandleCall {
    const name = method.localName;
    if (method.methodKind === "unary") {
      const handle = service.unary?.[name] ?? notServed(method);
      return (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => {
        void this.#serve(method, call, async (served) => {
          const response = await handle(decoded(method, call.request) as never, served);
          return encoded(method, response);
        }).then(
          (bytes) => callback(null, bytes),
          (error: unknown) => callback(toServiceError(asError(error))),
        );
      };
    }
    if (method.methodKind === "server_streaming") {
      const handle = service.streaming?.[name] ?? notServed(method);
      return (call: ServerWritableStream<Buffer, Buffer>) => {
        void this.#serve(method, call, async (served) => {
          const end = this.#track(call, served);
          try {
            for await (const response of handle(decoded(method, call.request) as never, served)) {
              if (served.signal.aborted) return;
              if (!call.write(encoded(method, response))) await drained(call, served.signal);
            }
          } finally {
            end();
          }
        }).then(
          () => call.end(),
          (error: unknown) => endWith(call, asError(error)),
        );
      };
    }
    const handle = service.duplex?.[name] ?? notServed(method);
    return (call: ServerDuplexStream<Buffer, Buffer>) => {
      void this.#serve(method, call, async (served) => {
        call.once("close", this.#track(call, served));
        handle(call, served);
        return Promise.resolve();
      }).catch((error: unknown) => endWith(call, asError(error)));
    };
  }

  /** Ends a stream whose credentials have ended. Returns a function that forgets it. */
  #track(call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>, served: ServedCall): () => void {
    const { principal } = served.context;
    if (principal === undefined) return () => undefined;
    const end = (error: ArchonError): void => endWith(call, error);
    this.#open.set(end, principal);
    return () => void this.#open.delete(end);
  }

  async #serve<T>(method: DescMethod, call: AnyCall, work: (served: ServedCall) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    (call as EventEmitter).on("cancelled", () => controller.abort(new OperationCancelled("the caller cancelled the call")));
    const text = (key: string): string => String(call.metadata.get(key)[0] ?? "");
    const caller = this.authenticator.caller(pathOf(method), text, () => call.getAuthContext().sslPeerCertificate?.raw);
    checkMeshId(text(MESH_ID_KEY));
    const deadline = call.getDeadline();
    const until = deadline instanceof Date ? deadline.getTime() : deadline;
    const context: CallContext = {
      tenant: caller.tenant || DEFAULT_TENANT,
      identity: caller.identity || ANONYMOUS,
      principal: caller.principal,
      traceparent: text("traceparent"),
      tracestate: text("tracestate"),
      runId: "",
      taskId: "",
      attempt: 0,
      role: "",
      deadline: Number.isFinite(until) ? now() + (until - Date.now()) : undefined,
    };
    return serving(context, () => work({ context, signal: controller.signal }));
  }
}

function newServer(): Server {
  return new Server({
    "grpc.max_receive_message_length": MAX_RECEIVE_BYTES,
    "grpc.max_send_message_length": MAX_RECEIVE_BYTES,
  });
}

function notServed(method: DescMethod): () => never {
  return () => {
    throw new Unimplemented(`${pathOf(method)} is in the contract, but not served here`, {
      metadata: { method: pathOf(method) },
    });
  };
}

function decoded(method: DescMethod, bytes: Buffer): Message {
  try {
    return fromBinary(method.input, bytes);
  } catch {
    throw malformed();
  }
}

function encoded(method: DescMethod, response: object): Buffer {
  return asBuffer(toBinary(method.output, create(method.output, response as MessageInitShape<typeof method.output>)));
}

/** Ends a stream with an error and its details in the trailers. */
export function endWith(
  call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
  error: ArchonError,
): void {
  if (!call.destroyed && !call.writableEnded) call.emit("error", toServiceError(error));
}

/** Resolves when a stream takes more messages, or its caller has left. */
function drained(call: ServerWritableStream<Buffer, Buffer>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      call.off("drain", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    call.once("drain", done);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}

function bind(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => {
      if (error === null) {
        resolve(port);
        return;
      }
      server.forceShutdown();
      const message = `cannot listen on ${address}: is another process using the port?`;
      reject(new Unavailable(message, { metadata: { address } }));
    });
  });
}

function shutDown(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, graceMs);
    server.tryShutdown(() => {
      clearTimeout(timer);
      server.forceShutdown();
      resolve();
    });
  });
}

function checkListening(host: string, encrypted: boolean): void {
  if (encrypted || isLoopback(hostOf(`${host}:0`))) return;
  if (!process.env["ARCHON_INSECURE"]) {
    throw new FailedPrecondition(
      `${host} can be reached from other machines, and traffic would be in clear text: set ARCHON_TLS to the folder of a ` +
        "certificate, or ARCHON_INSECURE=1 if the network is closed to others",
    );
  }
  log("warning", `listening on ${host} without TLS: every host of the network can read and change all traffic`);
}

/** Returns the credentials of a port that takes members of the mesh alone; replaced files count from the next connection on. */
function mutualTls(folder: CertificateFolder): ServerCredentials {
  const authorities = new Set<Parameters<experimental.CertificateProvider["addCaCertificateListener"]>[0]>();
  const identities = new Set<Parameters<experimental.CertificateProvider["addIdentityCertificateListener"]>[0]>();
  let given = folder.read();
  const tell = (): void => {
    for (const listener of authorities) listener({ caCertificate: given.authorities });
    for (const listener of identities) listener({ certificate: given.chain, privateKey: given.key });
  };
  outsideOfCalls(() =>
    setInterval(() => {
      const own = folder.read();
      if (own === given) return;
      given = own;
      tell();
    }, folder.interval).unref(),
  );
  const provider: experimental.CertificateProvider = {
    addCaCertificateListener: (listener) => {
      authorities.add(listener);
      process.nextTick(() => listener({ caCertificate: given.authorities }));
    },
    removeCaCertificateListener: (listener) => void authorities.delete(listener),
    addIdentityCertificateListener: (listener) => {
      identities.add(listener);
      process.nextTick(() => listener({ certificate: given.chain, privateKey: given.key }));
    },
    removeIdentityCertificateListener: (listener) => void identities.delete(listener),
  };
  return experimental.createCertificateProviderServerCredentials(provider, provider, true);
}
