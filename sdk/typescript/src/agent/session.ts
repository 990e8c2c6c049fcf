/** The agent's end of one orchestrator's stream. The read loop never waits for a handler. */
import { create, fromBinary } from "@bufbuild/protobuf";
import { SessionRequestSchema } from "../api/archon/api/agent/v1/agent_service_pb.js";
import {
  AgentFrameSchema,
  OrchestratorFrameSchema,
  type AdoptTask,
  type AgentFrame,
  type Open,
  type OrchestratorFrame,
} from "../api/archon/api/agent/v1/session_pb.js";
import type { TaskRef } from "../api/archon/api/common/v1/common_pb.js";
import type { Registration } from "../api/archon/api/registry/v1/registry_pb.js";
import { now } from "../context.js";
import { FailedPrecondition, Unavailable, type ArchonError } from "../errors.js";
import {
  encodeFrame,
  FEATURES,
  FrameQueue,
  hasTooManyFrames,
  MAX_FRAMES,
  SOFT_BATCH_BYTES,
  splitFrames,
  SUPERSEDED,
  taskOfFrame,
  type OutgoingFrame,
} from "../frames.js";
import { log } from "../log.js";
import { asError, fromFailure, malformed, toFailure } from "../status.js";
import { MAX_CHECKED_BYTES, toMs } from "../wire.js";
import { Attempt, type FrameSink } from "./attempt.js";
import {
  checkOpen,
  DEFAULT_PARK_TTL,
  DEFAULT_SILENCE_LIMIT,
  OPEN_TIMEOUT,
  parkTtl,
  PROTOCOL,
  ShareWindow,
  silenceLimit,
  UNREAD_TIMEOUT,
} from "./openLimits.js";
import {
  checkRef,
  MAX_ID,
  notHeld,
  notYours,
  sequenceGap,
  StreamExhausted,
  StreamRefused,
  unknownFrame,
} from "./rejections.js";
import type { SessionAgent } from "./sessionAgent.js";

/** Errors that may wait on a stream. */
const MAX_ERRORS = 10_000;

/** Characters of an orchestrator's text in the log. */
const MAX_LOGGED = 200;

/** A session, as long as its stream lives. `orchestratorId` is empty before Open. */
export class AgentSession implements FrameSink {
  readonly queue = new FrameQueue();
  readonly window = new ShareWindow();
  orchestratorId = "";
  /** The error that ends the stream; undefined: it ends with OK. */
  error: ArchonError | undefined;
  peerLimit = MAX_CHECKED_BYTES;
  parkTtl = DEFAULT_PARK_TTL;
  /** The features that both sides support; no other kinds of frames are sent. */
  agreed: ReadonlySet<string> = new Set();
  /** The credit that the orchestrator was told; undefined if it may have lowered its window since. */
  announced: number | undefined;
  /** Called once Open has come. */
  onOpen: () => void = () => undefined;
  /** Breaks the stream off. */
  onStuck: () => void = () => undefined;
  #silenceLimit = DEFAULT_SILENCE_LIMIT;
  #hasComplained = false;
  #closedAt: number | undefined;
  readonly #began = now();
  #heard = now();

  constructor(
    readonly agent: SessionAgent,
    /** Whether the agent has dialled: then Open may come at any time, or never. */
    readonly isAttached = false,
  ) {}

  put(frame: OutgoingFrame, droppable = false): void {
    this.queue.put(frame, droppable);
  }

  /** Sends the first frame of an attached stream: the registration to make. */
  announce(registration: Registration): void {
    this.#send({ case: "ready", value: { instanceId: this.agent.instanceId, role: this.agent.role, registration } as never });
  }

  /** Reads a message. Never throws: an error about the stream ends it. */
  read(message: Uint8Array): void {
    if (this.queue.closed) return;
    this.#heard = now();
    try {
      this.#message(message);
    } catch (error) {
      this.end(asError(error));
    }
  }

  #message(message: Uint8Array): void {
    if (hasTooManyFrames(message)) throw new StreamExhausted(`a message has at most ${MAX_FRAMES} frames`);
    let frames: OrchestratorFrame[];
    try {
      ({ frames } = fromBinary(SessionRequestSchema, message));
    } catch {
      this.#brokenMessage(message);
      return;
    }
    for (const frame of frames) this.#decoded(frame);
  }

  /** Decodes frame by frame a message that holds a broken frame, so that its neighbours are served. */
  #brokenMessage(message: Uint8Array): void {
    const frames = splitFrames(message);
    while (true) {
      let raw: Uint8Array;
      try {
        const next = frames.next();
        if (next.done) return;
        raw = next.value;
      } catch {
        this.#refuse(undefined, malformed("the message cannot be split into frames"));
        return;
      }
      let frame: OrchestratorFrame;
      try {
        frame = fromBinary(OrchestratorFrameSchema, raw);
      } catch {
        const why = "the frame is not valid protobuf, or a string in it is not UTF-8";
        this.#refuse(taskOfFrame(raw), malformed(why));
        continue;
      }
      this.#decoded(frame);
    }
  }

  /** Whether the stream was never opened, or nothing came for so long that the orchestrator must be gone. */
  get isSilent(): boolean {
    if (!this.orchestratorId) return !this.isAttached && now() - this.#began > OPEN_TIMEOUT;
    return now() - this.#heard > Math.max(10_000, 5 * this.#silenceLimit);
  }

  /** Ends the stream after the frames that wait, with an error or with OK. */
  end(error?: ArchonError): void {
    this.error ??= error;
    this.queue.close();
  }

  /** Ends a stream that is silent; breaks one off whose last frames are not read. Called from time to time. */
  check(): void {
    if (this.queue.closed) {
      this.#closedAt ??= now();
      if (now() - this.#closedAt >= UNREAD_TIMEOUT) this.onStuck();
    } else if (this.isSilent) {
      this.end(new Unavailable("no frames came from the orchestrator"));
    }
  }

  /** Announces how many tasks may be in flight on this session, if the number has changed. */
  credit(maxTasks: number, maxWaiting: number): void {
    if (maxTasks === this.announced || !this.agreed.has("credit")) return;
    this.announced = maxTasks;
    this.#send({ case: "credit", value: { maxTasks, maxWaiting } as never });
  }

  /** Announces that no new tasks are taken. */
  drain(): void {
    if (this.agreed.has("drain")) this.#send({ case: "drain", value: { reason: "the agent is stopping" } as never });
  }

  #send(frame: AgentFrame["frame"], droppable = false): void {
    this.put(encodeFrame(create(AgentFrameSchema, { frame: frame as never })), droppable);
  }

  #refuse(ref: TaskRef | undefined, error: ArchonError): void {
    const isShort = ref !== undefined && ref.taskId.length <= MAX_ID && ref.runId.length <= MAX_ID;
    this.#putError(
      create(AgentFrameSchema, {
        frame: { case: "failure", value: toFailure(error) },
        ...(isShort && { task: ref }),
      }),
    );
  }

  #putError(frame: AgentFrame): void {
    if (this.queue.length >= MAX_ERRORS) {
      throw new StreamExhausted("the orchestrator does not read its stream", { retryDelayMs: 1_000 });
    }
    this.put(encodeFrame(frame));
  }

  #decoded(frame: OrchestratorFrame): void {
    const { task, frame: content } = frame;
    try {
      if (content.case === "open") this.#open(content.value);
      else if (!this.orchestratorId) {
        throw new FailedPrecondition("the first frame of a session is Open", { reason: "SESSION_NOT_OPEN" });
      } else if (task !== undefined) this.#taskFrame(frame, task);
      else this.#sessionFrame(content);
    } catch (error) {
      if (error instanceof StreamRefused || error instanceof StreamExhausted) throw error;
      this.#refuse(task, asError(error)); // one frame must not affect its neighbours
    }
  }

  #open(open: Open): void {
    const { agent } = this;
    if (this.orchestratorId) {
      throw new FailedPrecondition("this session is already open", { reason: "SESSION_ALREADY_OPEN" });
    }
    checkOpen(open, agent.instanceId);
    const limit = Number(open.maxMessageBytes);
    if (limit > 0) {
      this.peerLimit = Math.min(MAX_CHECKED_BYTES, limit);
      this.queue.batchBytes = Math.min(SOFT_BATCH_BYTES, Math.floor(this.peerLimit / 2));
    }
    this.#silenceLimit = silenceLimit(open);
    this.parkTtl = parkTtl(open);
    const offered = new Set(open.features);
    this.orchestratorId = open.orchestratorId;
    this.agreed = new Set(FEATURES.filter((feature) => offered.has(feature)));
    this.announced = agent.sessionOpened(this);
    this.#send({
      case: "ready",
      value: {
        instanceId: agent.instanceId,
        protocol: PROTOCOL,
        features: [...this.agreed].sort(),
        maxTasks: this.announced,
        maxWaiting: agent.waitingShare,
        maxMessageBytes: BigInt(MAX_CHECKED_BYTES),
        role: agent.role,
      } as never,
    });
    if (agent.draining) this.drain();
    this.onOpen();
  }

  #sessionFrame(content: OrchestratorFrame["frame"]): void {
    switch (content.case) {
      case "heartbeat":
        this.#send({ case: "heartbeat", value: { echo: content.value.counter } as never }, true);
        this.#flushAcks();
        break;
      case "failure":
        this.#complain("the orchestrator refused a frame", content.value.message);
        break;
      case "drain":
        log("info", `orchestrator '${this.orchestratorId}' is draining: ${content.value.reason.slice(0, MAX_LOGGED)}`);
        break;
      default:
        throw unknownFrame(content.case);
    }
  }

  #taskFrame(frame: OrchestratorFrame, ref: TaskRef): void {
    const { attempts } = this.agent;
    const held = attempts.newest(ref.taskId);
    if (held === undefined) checkRef(ref);
    else if (!held.heeds(this.orchestratorId, ref)) throw notYours(ref);
    attempts.checkEpoch(ref, held);
    const attempt = held?.ref.attempt === ref.attempt ? held : undefined;
    const sequence = Number(frame.sequence);
    const arm = frame.frame.case;
    if (attempt !== undefined) {
      if (frame.ack > 0n) attempt.acked(Number(frame.ack));
      if (sequence !== 0 && arm !== "assignTask" && attempt.channel.take(sequence) !== "apply") {
        this.#outOfOrder(attempt, frame, sequence);
        return;
      }
    }
    this.#apply(frame, ref, attempt);
    if (attempt !== undefined && !attempt.working && !attempt.channel.hasUnacked) attempts.drop(attempt); // result acked
  }

  #apply(frame: OrchestratorFrame, ref: TaskRef, attempt: Attempt | undefined): void {
    const content = frame.frame;
    switch (content.case) {
      case "assignTask":
        this.#assign(frame, ref, attempt);
        break;
      case "cancelTask":
        attempt?.cancel({ over: content.value.reason !== SUPERSEDED });
        break;
      case "adoptTask":
        this.#adopt(ref, attempt, Number(frame.sequence), content.value);
        break;
      case "delegateResult":
      case "budgetGrant":
      case "input":
      case "messageResult":
        attempt?.calls.answered(content);
        break;
      case "updateMemory":
        attempt?.task?.update(content.value.context);
        break;
      case "message":
        attempt?.received(content.value);
        break;
      case "discarded":
        if (attempt !== undefined) this.agent.attempts.drop(attempt);
        break;
      case "failure":
        this.#failure(ref, attempt, fromFailure(content.value));
        break;
      default:
        if (frame.ack > 0n && frame.sequence === 0n && (frame.$unknown?.length ?? 0) === 0) break; // only an ack
        throw unknownFrame(content.case);
    }
  }

  #outOfOrder(attempt: Attempt, frame: OrchestratorFrame, sequence: number): void {
    if (sequence > attempt.channel.received) throw sequenceGap(sequence, attempt.channel.received + 1);
    // Idempotent, and a new owner that counts from 1 must be obeyed.
    if (frame.frame.case === "cancelTask") attempt.cancel({ over: frame.frame.value.reason !== SUPERSEDED });
  }

  #assign(frame: OrchestratorFrame, ref: TaskRef, held: Attempt | undefined): void {
    const { agent } = this;
    const sequence = Number(frame.sequence);
    if (held !== undefined) {
      held.channel.take(sequence); // a copy: the task is in progress
      return;
    }
    if (sequence > 1) throw sequenceGap(sequence, 1);
    const newest = agent.attempts.newest(ref.taskId);
    if (newest !== undefined && newest.ref.attempt > ref.attempt) return; // a late frame of a superseded attempt
    if (agent.attempts.isOver(ref) || frame.frame.case !== "assignTask") return;
    const refusal = agent.refusal(newest, this);
    if (refusal !== undefined) {
      this.announced = undefined; // the orchestrator halves its window
      agent.attempts.markOver(ref);
      this.#reject(ref, refusal, sequence);
      return;
    }
    const attempt = new Attempt(agent.attempts, ref, this);
    attempt.channel.take(sequence);
    agent.attempts.add(attempt);
    const assigned = frame.frame.value;
    const handler = assigned.bidRequest === undefined ? agent.handler : agent.bidHandler;
    attempt.start(handler, assigned, agent.role, agent.stateful);
  }

  #reject(ref: TaskRef, error: ArchonError, ack: number): void {
    this.#putError(
      create(AgentFrameSchema, {
        task: ref,
        sequence: 1n,
        ack: BigInt(ack),
        frame: { case: "reject", value: { failure: toFailure(error) } },
      }),
    );
  }

  #adopt(ref: TaskRef, attempt: Attempt | undefined, sequence: number, { lastApplied, remaining }: AdoptTask): void {
    if (attempt === undefined) {
      this.#reject(ref, notHeld(), sequence);
      return;
    }
    attempt.bind(this, ref.epoch);
    if (remaining !== undefined) attempt.setRemaining(toMs(remaining));
    if (attempt.working) attempt.sendAdopted(this);
    attempt.resend(Number(lastApplied));
    if (attempt.working) attempt.sendUsage();
  }

  #failure(ref: TaskRef, attempt: Attempt | undefined, error: ArchonError): void {
    if (attempt !== undefined && error.reason === "SEQUENCE_GAP") {
      const expected = error.metadata["expected"] ?? "1";
      attempt.resend(/^\d{1,15}$/.test(expected) ? Number(expected) - 1 : 0);
    } else if (attempt !== undefined && error.reason === "UNKNOWN_FRAME") {
      attempt.calls.refuse(error);
    } else {
      this.#complain(`the orchestrator refused a frame of task '${ref.taskId}'`, error.message);
    }
  }

  /** Logs an orchestrator's refusal, once per stream: it must not fill the log. */
  #complain(what: string, why: string): void {
    log(this.#hasComplained ? "debug" : "warning", `${what}: ${why.slice(0, MAX_LOGGED)}`);
    this.#hasComplained = true;
  }

  /** Sends the acks that no other frame has carried since the last heartbeat. */
  #flushAcks(): void {
    for (const attempt of this.agent.attempts) {
      if (attempt.session === this && attempt.channel.ackOwed) this.put(attempt.channel.stamp(new Uint8Array(0), false));
    }
  }
}
