/**
 * Attaches an agent that cannot be dialled to an orchestrator: it opens the streams of its sessions itself. Each stream begins
 * with the registration and becomes a session when an orchestrator sends Open on it. One stream is always spare: when it
 * becomes a session, the next one is opened on the same connection.
 */
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";
import { randomBytes } from "node:crypto";
import { AttachService } from "../api/archon/api/agent/v1/attach_service_pb.js";
import { Channel, serviceOptions } from "../channel.js";
import { now, outsideOfCalls } from "../context.js";
import { ArchonError, Unavailable } from "../errors.js";
import { log } from "../log.js";
import { meshIdMetadata } from "../meshId.js";
import { registrationToProto, type Registration } from "../registry/registration.js";
import { isTransient, pause } from "../registry/retry.js";
import { ORCHESTRATOR } from "../security/peer.js";
import { asError } from "../status.js";
import type { AgentSession } from "./session.js";
import { attachSession } from "./stream.js";

/** Metadata of Attach: a secret of this process, by which another orchestrator lets it take its registration along. */
const TOKEN_KEY = "archon-attach-token";

/** Milliseconds between two streams after one that ended without Open, or after all were lost. */
const MIN_PAUSE = 100;
const MAX_PAUSE = 5_000;

/** Milliseconds that an orchestrator has to register the agent. */
const ACCEPT_TIMEOUT = 20_000;

/** Milliseconds without a session after which the connection is given up: an orchestrator itself opens one at once. */
const OPEN_TIMEOUT = 15_000;

/** Milliseconds that the streams have to end when the agent stops: the orchestrator deregisters it first. */
const END_TIMEOUT = 3_000;

/** The part of the agent that an attachment uses. */
export interface AttachedAgent {
  readonly instanceId: string;
  readonly registration: Registration;
  streamBegan(isAttached: boolean): AgentSession;
  streamEnded(session: AgentSession): void;
}

interface AttachStream {
  readonly session: AgentSession;
  readonly call: ClientDuplexStream<Uint8Array, Buffer>;
  isAccepted: boolean;
  isOver: boolean;
  error: ArchonError | undefined;
  changed: () => void;
}

/** Keeps an agent attached to the orchestrator at `target` (host:port, or a name with several replicas). */
export class Attachment {
  /** Why the agent is not attached. */
  error: ArchonError | undefined;
  readonly #token = randomBytes(24).toString("base64url");
  readonly #streams = new Set<AttachStream>();
  readonly #stop = new AbortController();
  readonly #waiters = new Set<() => void>();
  #isStarting = false;
  #isAttached = false;
  #isClosing = false;
  #pause = MIN_PAUSE;
  #running: Promise<void> = Promise.resolve();

  constructor(
    readonly agent: AttachedAgent,
    readonly target: string,
  ) {}

  /** Attaches in the background; waits until an orchestrator has registered the agent. Throws if it refuses the agent. */
  async start(timeoutMs: number): Promise<void> {
    this.#running = outsideOfCalls(() => this.#run());
    const until = now() + timeoutMs;
    this.#isStarting = true;
    while (!this.#isAttached && !this.#isClosing && now() < until) {
      await this.#changed(until - now());
      if (!this.#isAttached && this.error !== undefined && !isTransient(this.error)) throw this.error;
    }
    this.#isStarting = false;
    if (!this.#isAttached && !this.#isClosing) {
      log("warning", `not attached to ${this.target} yet, trying again: ${this.error?.message ?? "no answer"}`);
    }
  }

  /** Whether an orchestrator has accepted the agent, on streams that have not been lost. */
  get isAttached(): boolean {
    return this.#isAttached;
  }

  /** Ends all streams after the frames that wait, by which the orchestrator deregisters the agent. Idempotent. */
  async close(): Promise<void> {
    this.#isClosing = true; // no further stream is opened: it would register the agent again
    for (const { session } of this.#streams) session.end();
    const until = now() + END_TIMEOUT;
    while (this.#streams.size > 0 && now() < until) await this.#changed(until - now());
    this.#stop.abort();
    this.#tell();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted && !this.#isClosing) {
      let channel: Channel | undefined;
      try {
        // A connection of its own to one replica, which is chosen at random.
        const policy = { loadBalancingConfig: [{ pick_first: { shuffleAddressList: true } }] };
        channel = new Channel(this.target, ORCHESTRATOR, {
          options: {
            ...serviceOptions(this.target),
            "grpc.service_config": JSON.stringify(policy),
            "grpc.use_local_subchannel_pool": 1,
            "grpc.enable_retries": 0,
          },
        });
        await this.#keep(channel);
      } catch (error) {
        if (!this.#isClosing) this.#failed(asError(error));
      }
      if (!this.#isClosing) for (const { call } of this.#streams) call.cancel();
      const until = now() + END_TIMEOUT;
      while (this.#streams.size > 0 && now() < until) await this.#changed(until - now());
      this.#isAttached = false;
      channel?.close();
      if (!this.#isClosing) await this.#wait();
    }
  }

  /** Keeps one stream spare, until all streams on the channel are lost. Throws the reason. */
  async #keep(channel: Channel): Promise<void> {
    const { signal } = this.#stop;
    while (!this.#isClosing) {
      const spare = this.#begin(channel);
      let until = now() + ACCEPT_TIMEOUT;
      while (!spare.session.orchestratorId && !spare.isOver && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.max(1, until - now()));
          spare.changed = (): void => {
            clearTimeout(timer);
            resolve();
          };
          this.#waiters.add(spare.changed);
        });
        this.#waiters.delete(spare.changed);
        if (now() >= until && !this.#inSession(spare)) {
          const what = spare.isAccepted ? `no session was opened within ${OPEN_TIMEOUT / 1000} s` : "the orchestrator did not answer in time";
          throw new Unavailable(what);
        }
        if (now() >= until) until = now() + OPEN_TIMEOUT;
        if (spare.isAccepted && !spare.isOver && !this.#isAttached) {
          until = now() + OPEN_TIMEOUT;
          if (this.error !== undefined && !this.#isStarting) log("info", `${this.agent.instanceId} is attached to ${this.target}`);
          this.error = undefined;
          this.#isAttached = true;
          this.#tell();
        }
      }
      if (signal.aborted || this.#isClosing) return;
      if (spare.session.orchestratorId) {
        this.#pause = MIN_PAUSE;
        continue;
      }
      const error = spare.error ?? new Unavailable("the orchestrator has ended the stream");
      if (!this.#inSession(spare)) throw error;
      this.#failed(error);
      await this.#wait();
    }
  }

  #begin(channel: Channel): AttachStream {
    const session = this.agent.streamBegan(true);
    const metadata: [string, string][] = [...meshIdMetadata(), [TOKEN_KEY, this.#token]];
    const call = channel.duplex(AttachService.method.attach, { metadata });
    const stream: AttachStream = {
      session,
      call,
      isAccepted: false,
      isOver: false,
      error: undefined,
      changed: () => undefined,
    };
    this.#streams.add(stream);
    session.onOpen = () => stream.changed();
    call.on("metadata", () => {
      stream.isAccepted = true;
      stream.changed();
    });
    call.on("error", (error: unknown) => {
      stream.error = asError(error);
    });
    call.on("status", (status: StatusObject) => {
      if (stream.isOver) return;
      stream.isOver = true;
      if (status.code !== 0) stream.error ??= asError(Object.assign(new Error(status.details), status));
      session.queue.abandon();
      this.#streams.delete(stream);
      this.agent.streamEnded(session);
      stream.changed();
      this.#tell();
    });
    session.announce(registrationToProto(this.agent.registration));
    attachSession(session, call);
    return stream;
  }

  #inSession(but: AttachStream): boolean {
    return [...this.#streams].some((stream) => stream !== but && stream.session.orchestratorId && !stream.isOver);
  }

  /** Keeps an error for `start`, and logs it unless it is the last one again. */
  #failed(error: ArchonError): void {
    const isThrown = this.#isStarting && !isTransient(error); // by `start`, and not tried again
    if (!isThrown && error.message !== this.error?.message) {
      const level = isTransient(error) ? "info" : "warning";
      log(level, `${this.agent.instanceId} is not attached to ${this.target}, trying again: ${error.message}`);
    }
    this.error = error;
    this.#tell();
  }

  async #wait(): Promise<void> {
    await pause(this.#pause * (0.5 + Math.random() / 2), this.#stop.signal).catch(() => undefined);
    this.#pause = Math.min(MAX_PAUSE, this.#pause * 2);
  }

  #changed(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, Math.max(1, ms));
      this.#waiters.add(done);
    });
  }

  #tell(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }
}
