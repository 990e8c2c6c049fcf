/** FrameOrchestrator: the orchestrator's end of an agent's session, driven frame by frame. */
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";
import type { AssignTaskSchema, TaskResult } from "../api/archon/api/agent/v1/agent_pb.js";
import { AgentService, SessionRequestSchema, SessionResponseSchema } from "../api/archon/api/agent/v1/agent_service_pb.js";
import { OrchestratorFrameSchema, type AgentFrame, type Ready } from "../api/archon/api/agent/v1/session_pb.js";
import { agentOptions, Channel } from "../channel.js";
import { ArchonError } from "../errors.js";
import { FEATURES } from "../frames.js";
import { agentPeer } from "../security/peer.js";
import { asError } from "../status.js";
import { refToProto, type TaskRef } from "../types/usage.js";
import { durationOf } from "../wire.js";

type Frame = MessageInitShape<typeof OrchestratorFrameSchema>;
type Arm = AgentFrame["frame"]["case"];

/** Options of a session. */
export interface OpenOptions {
  /** By default that of the agent at the address. */
  readonly instanceId?: string;
  readonly protocol?: number;
  readonly features?: readonly string[];
  readonly maxMessageBytes?: number;
  readonly parkTtlMs?: number;
  readonly silenceLimitMs?: number;
}

/**
 * One stream to the agent at an address. It sends only the frames that the test sends: no heartbeats, no acks, no resends.
 * Methods that wait do so for at most `timeoutMs` and then throw an Error with the frames that came instead.
 */
export class FrameOrchestrator {
  /** All received frames, in order. */
  readonly frames: AgentFrame[] = [];
  readonly orchestratorId: string;
  readonly timeoutMs: number;
  epoch: number;
  readonly #channel: Channel;
  readonly #call: ClientDuplexStream<Uint8Array, Buffer>;
  readonly #taken = new Set<AgentFrame>();
  readonly #sent = new Map<string, number>();
  readonly #waiters = new Set<() => void>();
  #hasEnded = false;
  #error: ArchonError | undefined;

  constructor(
    readonly address: string,
    { orchestratorId = "orchestrator-1", timeoutMs = 5_000, epoch = 1, role = "" } = {},
  ) {
    [this.orchestratorId, this.timeoutMs, this.epoch] = [orchestratorId, timeoutMs, epoch];
    this.#channel = new Channel(address, agentPeer(role), { options: agentOptions({ fresh: true }) });
    this.#call = this.#channel.duplex(AgentService.method.session);
    this.#call.on("data", (bytes: Buffer) => {
      this.frames.push(...fromBinary(SessionResponseSchema, bytes).frames);
      this.#wake();
    });
    this.#call.on("error", (error: unknown) => {
      this.#error ??= asError(error);
    });
    this.#call.on("status", (status: StatusObject) => {
      this.#hasEnded = true;
      if (status.code !== 0) this.#error ??= asError(Object.assign(new Error(status.details), status));
      this.#wake();
    });
  }

  /** Breaks the stream off, as a broken connection does. Idempotent. */
  breakOff(): void {
    this.#call.cancel();
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.breakOff();
  }

  // To the agent

  /** Opens the session, and waits for Ready. */
  async open(options: OpenOptions = {}): Promise<Ready> {
    const instanceId = options.instanceId ?? (await this.instanceId());
    const { protocol = 1, features = FEATURES, maxMessageBytes = 0, parkTtlMs, silenceLimitMs } = options;
    const value = {
      orchestratorId: this.orchestratorId,
      instanceId,
      protocol,
      features: [...features],
      maxMessageBytes: BigInt(maxMessageBytes),
      ...(parkTtlMs !== undefined && { parkTtl: durationOf(parkTtlMs) }),
      ...(silenceLimitMs !== undefined && { silenceLimit: durationOf(silenceLimitMs) }),
    };
    this.send({ frame: { case: "open", value } });
    const { frame } = await this.receive("ready");
    return frame.value as Ready;
  }

  /** Returns the id of the instance at the address. */
  async instanceId(): Promise<string> {
    const answer = await this.#channel.unary(AgentService.method.describe, {}, { timeoutMs: this.timeoutMs });
    return answer.registration?.instanceId ?? "";
  }

  /** Returns a reference to an attempt, with the current epoch. */
  ref(taskId: string, { runId = "run-1", attempt = 1 } = {}): TaskRef {
    return { taskId, runId, attempt, epoch: this.epoch };
  }

  /** Returns a frame with its task and the next sequence of the attempt, or with `sequence`. */
  stamped(ref: TaskRef, frame: Frame["frame"], sequence?: number): Frame {
    const key = `${ref.taskId}/${ref.attempt}`;
    let number = sequence;
    if (number === undefined) {
      number = (this.#sent.get(key) ?? 0) + 1;
      this.#sent.set(key, number);
    }
    return { task: refToProto(ref), sequence: BigInt(number), frame };
  }

  /** Sends frames in one message, unchanged. */
  send(...frames: Frame[]): void {
    const message = create(SessionRequestSchema, { frames: frames.map((frame) => create(OrchestratorFrameSchema, frame)) });
    this.sendRaw(toBinary(SessionRequestSchema, message));
  }

  /** Sends any bytes as one message. */
  sendRaw(message: Uint8Array): void {
    this.#call.write(message);
  }

  /** Ends the sending side. */
  halfClose(): void {
    this.#call.end();
  }

  /** Assigns a task: a text, or all of the assignment. */
  assign(ref: TaskRef, task: string | MessageInitShape<typeof AssignTaskSchema>): void {
    this.send(this.assignment(ref, task));
  }

  /** Returns the frame that assigns a task. */
  assignment(ref: TaskRef, task: string | MessageInitShape<typeof AssignTaskSchema>): Frame {
    const value = typeof task === "string" ? { input: [{ content: { case: "text" as const, value: task } }] } : task;
    return this.stamped(ref, { case: "assignTask", value });
  }

  /** Cancels an attempt. */
  cancel(ref: TaskRef, reason = "enough"): void {
    this.send(this.stamped(ref, { case: "cancelTask", value: { reason } }));
  }

  /** Adopts an attempt. */
  adopt(ref: TaskRef, lastApplied = 0): void {
    const value = { lastApplied: BigInt(lastApplied) };
    this.send({ task: refToProto(ref), frame: { case: "adoptTask", value } });
  }

  /** Acknowledges the agent's frames up to a sequence. */
  ack(ref: TaskRef, sequence: number): void {
    this.send({ task: refToProto(ref), ack: BigInt(sequence) });
  }

  /** Sends a heartbeat. */
  heartbeat(counter: number): void {
    this.send({ frame: { case: "heartbeat", value: { counter: BigInt(counter) } } });
  }

  // From the agent

  /**
   * Waits for a frame with this arm (undefined for one without an arm), of this attempt if `ref` is given. Each frame is
   * returned once; frames with other arms stay available.
   */
  async receive(arm: Arm, ref?: TaskRef): Promise<AgentFrame> {
    const until = performance.now() + this.timeoutMs;
    while (true) {
      const found = this.frames.find((frame) => {
        return !this.#taken.has(frame) && frame.frame.case === arm && isAbout(frame, ref);
      });
      if (found !== undefined) {
        this.#taken.add(found);
        return found;
      }
      if (this.#hasEnded || performance.now() >= until) break;
      await this.#changed(until - performance.now());
    }
    const came = this.frames.map((frame) => frame.frame.case ?? "ack").join(", ");
    const ended = this.#hasEnded ? `, and the stream ended with ${this.#error?.message ?? "OK"}` : "";
    throw new Error(`no frame ${arm ?? "without an arm"} came; there were [${came}]${ended}`);
  }

  /** Waits for the result of the attempt, and acknowledges it. */
  async result(ref: TaskRef): Promise<TaskResult> {
    const { sequence, frame } = await this.receive("result", ref);
    this.ack(ref, Number(sequence));
    return frame.value as TaskResult;
  }

  /** Waits for the agent to end the stream. Returns the error; undefined if it ended with OK. */
  async ended(): Promise<ArchonError | undefined> {
    const until = performance.now() + this.timeoutMs;
    while (!this.#hasEnded) {
      if (performance.now() >= until) throw new Error("the agent has not ended the stream");
      await this.#changed(until - performance.now());
    }
    return this.#error;
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

  #wake(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }
}

function isAbout({ task }: AgentFrame, ref: TaskRef | undefined): boolean {
  return ref === undefined || (task?.taskId === ref.taskId && task.attempt === ref.attempt);
}
