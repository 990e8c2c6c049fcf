/** One attempt at a task: its handler while it runs, then its result until the orchestrator acknowledges it. */
import { create } from "@bufbuild/protobuf";
import { context as otelContext, type Span } from "@opentelemetry/api";
import {
  CallRecordSchema,
  ProgressSchema,
  type AssignTask,
  type CallRecord,
} from "../api/archon/api/agent/v1/agent_pb.js";
import type { PeerMessage } from "../api/archon/api/agent/v1/message_pb.js";
import {
  AdoptedSchema,
  AgentFrameSchema,
  CheckpointSchema,
  PublishSchema,
  type Publish,
} from "../api/archon/api/agent/v1/session_pb.js";
import type { TaskRef } from "../api/archon/api/common/v1/common_pb.js";
import { now, servingLive } from "../context.js";
import {
  DeadlineExceeded,
  OperationCancelled,
  ResourceExhausted,
  Unimplemented,
  type ArchonError,
} from "../errors.js";
import { agentContent, encodeFrame, FrameChannel, type OutgoingFrame } from "../frames.js";
import { log } from "../log.js";
import { messageFromProto } from "../types/message.js";
import { refFromProto } from "../types/usage.js";
import type { Link } from "./link.js";
import { PendingCalls } from "./pendingCalls.js";
import { withoutPayload } from "./records.js";
import { handlerFailure, resultContent } from "./resultContent.js";
import { Task } from "./task.js";
import { callOf, endTaskSpan, startTaskSpan } from "./taskSpan.js";

/** Works on a task. Its return value is a text, an Answer, a Question, or nothing. */
export type Handler = (task: Task) => unknown;

/** Milliseconds that a cancelled handler has to end; after them its attempt ends without it. */
export const CANCEL_GRACE = 1_000;

/** Unacknowledged bytes above which a checkpoint is held back, and no item is published. */
const MAX_UNACKED = 8 * 1024 * 1024;

/** Milliseconds after which recorded calls are sent, if no frame that they precede was sent before. */
const RECORDS_WITHIN = 500;

/** Orchestrators that an attempt was offered to and may still answer. */
const MAX_OFFERED = 8;

const MAX_TIMER = 0x7fffffff;

/** Where the frames of an attempt go: the stream of a session, or a single RunTask call. */
export interface FrameSink {
  readonly orchestratorId: string;
  readonly agreed: ReadonlySet<string>;
  readonly peerLimit: number;
  readonly parkTtl: number;
  put(frame: OutgoingFrame, droppable?: boolean): void;
}

/** The part of the attempt table that an attempt uses. */
export interface AttemptOwner {
  readonly running: Set<Attempt>;
  readonly abandoned: Set<Attempt>;
  readonly memory: string;
  handlerEnded(attempt: Attempt): void;
  recount(attempt: Attempt): void;
  changed(): void;
}

/** From its assignment until its result is acknowledged. It belongs to the agent, not to a stream. */
export class Attempt {
  readonly channel: FrameChannel;
  /** The stream on which its frames leave now; undefined while there is none. */
  session: FrameSink | undefined;
  finishedAt: number | undefined;
  parkTtl: number;
  limit: number;
  /** Why it is being stopped. */
  halted: ArchonError | undefined;
  #owner: string;
  readonly #offeredTo: string[] = [];
  readonly #controller = new AbortController();
  #calls: PendingCalls | undefined;
  #timer: NodeJS.Timeout | undefined;
  #recordsTimer: NodeJS.Timeout | undefined;
  #task: Task | undefined;
  #span: Span | undefined;
  #checkpoint: Uint8Array | undefined;

  constructor(
    readonly table: AttemptOwner,
    readonly ref: TaskRef,
    session: FrameSink,
  ) {
    this.channel = new FrameChannel(ref);
    this.session = session;
    this.#owner = session.orchestratorId;
    this.parkTtl = session.parkTtl;
    this.limit = session.peerLimit;
  }

  /** Whether there is no result yet. */
  get working(): boolean {
    return this.finishedAt === undefined;
  }

  /** Whether the attempt only waits for its delegations. */
  get waiting(): boolean {
    return this.working && this.#calls?.waiting === true;
  }

  get calls(): PendingCalls {
    this.#calls ??= new PendingCalls(this);
    return this.#calls;
  }

  /**
   * Whether a frame of this orchestrator about the task may act on the attempt: it assigned or adopted the attempt, the
   * attempt was offered to it, or it has a higher epoch. No orchestrator may act on the task of a RunTask.
   */
  heeds(orchestratorId: string, ref: TaskRef): boolean {
    if (ref.runId !== this.ref.runId || !this.#owner) return false;
    return ref.epoch !== this.ref.epoch || orchestratorId === this.#owner || this.#offeredTo.includes(orchestratorId);
  }

  /** Stops the time of the task while it waits for a person, as its orchestrator does. */
  stopClock(): void {
    this.#task?.stopClock();
    if (this.halted !== undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The time of the task goes on. */
  startClock(): void {
    if (this.#task === undefined || this.halted !== undefined || !this.working) return;
    this.#task.startClock();
    this.#startTimer(this.#task);
  }

  /** Sets the time that is left, as the orchestrator says when it adopts the attempt. */
  setRemaining(ms: number): void {
    if (this.#task === undefined || this.halted !== undefined || !this.working) return;
    this.#task.setRemaining(ms);
    this.#startTimer(this.#task);
  }

  #startTimer(task: Task): void {
    const left = task.remainingMs();
    if (left === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        if ((task.remainingMs() ?? 0) > 0) this.#startTimer(task); // a timer is early, or cannot be so long
        else this.#halt(new DeadlineExceeded("the task's time is over"), true);
      },
      Math.min(Math.ceil(left), MAX_TIMER),
    ).unref();
  }

  // The handler

  /** Runs the handler; the read loop does not wait for it. */
  start(handler: Handler, assigned: AssignTask, role: string, stateful = false): void {
    const { memory } = this.table;
    const ref = refFromProto(this.ref);
    const task = new Task(ref, assigned, this.#link(), this.#controller.signal, { role, stateful, memory });
    this.#task = task;
    this.table.running.add(this);
    this.#startTimer(task);
    setImmediate(() => void this.#run(handler, task)); // after the other frames of the message
  }

  async #run(handler: Handler, task: Task): Promise<void> {
    if (!this.working || this.halted !== undefined) {
      this.table.handlerEnded(this);
      this.#finish(this.halted);
      return;
    }
    const { span, within } = startTaskSpan(task);
    this.#span = span;
    let outcome: unknown;
    try {
      outcome = await servingLive(callOf(task), () => otelContext.with(within, () => handler(task)));
      if (this.halted !== undefined) outcome = this.halted;
    } catch (error) {
      outcome = this.halted ?? handlerFailure(error);
    }
    this.table.handlerEnded(this);
    this.#finish(outcome);
  }

  /** Stops the handler. The result is CANCELED, or the handler's own if it is earlier. `over`: no other attempt goes on. */
  cancel({ over = false } = {}): void {
    this.#halt(new OperationCancelled("the task was cancelled"), over);
  }

  #halt(cause: ArchonError, over: boolean): void {
    const task = this.#task;
    if (this.halted !== undefined || !this.working || task === undefined) return;
    this.halted = cause;
    if (over) task.isOverFor = "all";
    this.#calls?.refuse(cause);
    task.endWaits(cause);
    this.#controller.abort(cause);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      log("warning", `the handler of task ${task.taskId} was cancelled and goes on: it has to watch task.signal`);
      this.#finish(cause);
    }, CANCEL_GRACE);
  }

  #link(): Link {
    return {
      progress: (progress) => {
        if (!this.working || !this.agreed("progress")) return; // no progress after the result
        const content = agentContent("progress", ProgressSchema, progress);
        this.session?.put(this.channel.stamp(content, false), true);
      },
      recorded: () => this.#recorded(),
      save: (data) => this.#save(data),
      publish: (item) => this.#publish(item),
      delegate: (delegation, signal) => this.calls.delegate(delegation, signal),
      sendMessage: (message) => this.calls.sendMessage(message),
      subscribe: (subscription) => this.calls.subscribe(subscription),
      ask: (question) => this.calls.ask(question),
      reserve: (budget) => this.calls.reserve(budget),
    };
  }

  // Its frames

  /** Sends a sequenced frame on the current stream; without one it waits for the next. */
  send(content: Uint8Array): void {
    const frame = this.channel.stamp(content);
    this.table.recount(this);
    this.session?.put(frame);
  }

  /** Sends a checkpoint, and before it the calls that it rests on, as soon as there is room. */
  #save(data: Uint8Array): void {
    if (!this.working || !this.agreed("checkpoint")) return;
    const content = agentContent("checkpoint", CheckpointSchema, create(CheckpointSchema, { data }));
    this.channel.checkSize(content, this.limit);
    this.#sendRecords();
    this.#checkpoint = content;
    this.#sendCheckpoint();
  }

  #publish(item: Publish): void {
    if (this.halted !== undefined) throw this.halted;
    if (!this.working) return;
    if (!this.agreed("publish")) throw new Unimplemented("the caller of this task does not support the feature publish");
    const content = agentContent("publish", PublishSchema, item);
    this.channel.checkSize(content, this.limit);
    const waiting = this.channel.pendingBytes;
    if (waiting > MAX_UNACKED) {
      throw new ResourceExhausted(
        `${waiting} bytes of this task wait to be stored, at most ${MAX_UNACKED} may; publish less often`,
      );
    }
    this.flush();
    this.send(content);
  }

  /** Sends the frames that must precede later ones: the checkpoint held back, and the recorded calls. */
  flush(): void {
    this.#sendCheckpoint(true);
    this.#sendRecords();
  }

  #sendCheckpoint(room = false): void {
    if (this.#checkpoint === undefined || (!room && this.channel.pendingBytes >= MAX_UNACKED)) return;
    const checkpoint = this.#checkpoint;
    this.#checkpoint = undefined;
    this.send(checkpoint);
  }

  /** Sends the recorded calls soon, together with the next ones: most precede a result by then. */
  #recorded(): void {
    if (this.working) this.#recordsTimer ??= setTimeout(() => this.#sendRecords(), RECORDS_WITHIN).unref();
  }

  #sendRecords(): void {
    clearTimeout(this.#recordsTimer);
    this.#recordsTimer = undefined;
    const records = this.#task?.account.takeRecords() ?? [];
    if (this.agreed("record")) for (const record of records) this.#sendRecord(record);
  }

  #sendRecord(record: CallRecord): void {
    let content = agentContent("record", CallRecordSchema, record);
    try {
      this.channel.checkSize(content, this.limit);
    } catch {
      content = agentContent("record", CallRecordSchema, withoutPayload(record));
    }
    this.send(content);
  }

  /** Sends the handler's usage, for an owner that may not know it. */
  sendUsage(): void {
    this.#task?.account.sendUsage();
  }

  /** The task as its handler sees it, while there is no result. */
  get task(): Task | undefined {
    return this.#task;
  }

  /** Passes a message of another agent to the handler. */
  received(message: PeerMessage): void {
    this.#task?.messenger.inbox.put(messageFromProto(message));
  }

  /** Tells an orchestrator that the attempt is being worked on: as the answer to AdoptTask, or unasked. */
  sendAdopted(session: FrameSink): void {
    const value = create(AdoptedSchema, { lastApplied: BigInt(this.channel.applied) });
    session.put(encodeFrame(create(AgentFrameSchema, { task: this.ref, frame: { case: "adopted", value } })));
  }

  /** Offers the attempt to any orchestrator: its result, or, while there is none, that it is being worked on. */
  offer(session: FrameSink): void {
    const { orchestratorId } = session;
    if (orchestratorId !== this.#owner && !this.#offeredTo.includes(orchestratorId)) {
      this.#offeredTo.push(orchestratorId);
      if (this.#offeredTo.length > MAX_OFFERED) this.#offeredTo.shift();
    }
    if (this.working) {
      this.sendAdopted(session);
      return;
    }
    const bound = this.session;
    this.session = session;
    this.resend(0);
    this.session = bound;
  }

  /** Sends every unacknowledged frame after a sequence again. */
  resend(after: number): void {
    this.channel.acked(after);
    this.table.recount(this);
    if (this.session === undefined) return;
    for (const frame of this.channel.unacked()) this.session.put(frame);
    this.#sendCheckpoint();
  }

  /** Forgets the frames up to a sequence; this may make room for a checkpoint. */
  acked(sequence: number): void {
    this.channel.acked(sequence);
    this.table.recount(this);
    this.#sendCheckpoint();
  }

  /** Whether frames of this kind may be sent. True without a stream: the frame waits for the next one. */
  agreed(feature: string): boolean {
    return this.session === undefined || this.session.agreed.has(feature);
  }

  /** Moves the attempt to another stream and owner. */
  bind(session: FrameSink, epoch: bigint): void {
    this.#owner = session.orchestratorId;
    [this.session, this.parkTtl, this.limit] = [session, session.parkTtl, session.peerLimit];
    this.ref.epoch = epoch;
  }

  // Its result

  /** Sends the result: of the handler's return value, or of the error that ended it. */
  #finish(outcome: unknown): void {
    const task = this.#task;
    if (!this.working || task === undefined) return;
    clearTimeout(this.#timer);
    this.flush();
    const { channel, limit, halted } = this;
    const { result, content } = resultContent(task, outcome, { channel, limit, halted });
    if (this.#span !== undefined) endTaskSpan(this.#span, result);
    this.#task = this.#span = undefined;
    this.finishedAt = now();
    if (this.table.running.has(this)) this.table.abandoned.add(this);
    const over = new OperationCancelled("the task is over");
    this.#calls?.refuse(over);
    this.#calls = undefined;
    task.endWaits(over);
    this.#controller.abort(over);
    this.send(content);
    this.table.changed();
  }
}
