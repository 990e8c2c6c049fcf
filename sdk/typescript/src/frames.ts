/**
 * Frames of a session: reliable delivery per (task, attempt, direction), batches, and raw decoding. A frame is serialised
 * once, when it is stamped or queued; a message is the joined bytes of its frames. A sequenced frame is kept by its sender
 * until the peer acknowledges it.
 */
import { fromBinary, toBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { AgentFrameSchema, type AgentFrame } from "./api/archon/api/agent/v1/session_pb.js";
import { TaskRefSchema, type TaskRef } from "./api/archon/api/common/v1/common_pb.js";
import { now, outsideOfCalls } from "./context.js";
import { InvalidArgument } from "./errors.js";
import { malformed } from "./status.js";
import { encodeVarint } from "./wire.js";

/** The features of both ends that the smallest member lacks. */
export const FEATURES = [
  "cancel",
  "park",
  "adopt",
  "credit",
  "progress",
  "record",
  "drain",
  "delegate",
  "budget",
  "checkpoint",
  "publish",
  "update_memory",
  "input",
  "messages",
] as const;

/** The reason of a CancelTask for an attempt that no longer counts, while its task goes on without it. */
export const SUPERSEDED = "superseded";

/** Frames of a message. More of them would hold up the other streams of the process. */
export const MAX_FRAMES = 10_000;

export const SOFT_BATCH_BYTES = 256 * 1024;

/** Bytes that a frame may take besides its task and its content: sequence, ack and framing. */
const MAX_FRAME_OVERHEAD = 64;

/** Milliseconds between two messages of a stream that is busy with FULL_LOAD tasks or more. */
const HOLD = 5;

/** Tasks in a message from which on the next one waits HOLD. Below, the wait falls with the square of their number. */
const FULL_LOAD = 4;

/** Milliseconds that acks wait for another frame with which they share a message. */
const ACK_WAIT = 20;

const NOTHING = new Uint8Array(0);
const FRAMES_KEY = 0x0a;

/** A serialised frame: `head` and `content` together are one entry of the field `frames`. */
export interface OutgoingFrame {
  /** Undefined for a frame about the session itself. */
  readonly taskId: string | undefined;
  readonly head: Uint8Array;
  readonly content: Uint8Array;
}

/** Joins bytes. */
export function joined(...chunks: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(chunks);
}

/** Serialises a frame that no channel stamps: about the session, or about a task without a sequence of its own. */
export function encodeFrame(frame: AgentFrame): OutgoingFrame {
  const data = toBinary(AgentFrameSchema, frame);
  return { taskId: frame.task?.taskId, head: joined(Uint8Array.of(FRAMES_KEY), encodeVarint(data.length)), content: data };
}

/** The local name of an arm of AgentFrame. */
export type AgentArm = keyof typeof AgentFrameSchema.field;

/** Returns the content of an AgentFrame whose arm has this local name. */
export function agentContent<D extends DescMessage>(arm: AgentArm, schema: D, message: MessageShape<D>): Uint8Array {
  const data = toBinary(schema, message);
  return joined(encodeVarint(AgentFrameSchema.field[arm].number * 8 + 2), encodeVarint(data.length), data);
}

/** The action for a received frame. */
export type Verdict = "apply" | "duplicate" | "gap";

/** Both directions of one (task, attempt), seen from the agent. */
export class FrameChannel {
  received = 0;
  applied = 0;
  ackOwed = false;
  /** Bytes of content that are kept until they are acknowledged. */
  pendingBytes = 0;
  #sent = 0;
  #unacked: { sequence: number; content: Uint8Array }[] = [];
  #refBytes: Uint8Array = NOTHING;
  #refEpoch: bigint | undefined;

  constructor(readonly ref: TaskRef) {}

  /** Returns a frame under the current reference and ack. A sequenced one gets the next number and is kept until its ack. */
  stamp(content: Uint8Array, sequenced = true): OutgoingFrame {
    let sequence = 0;
    if (sequenced) {
      sequence = this.#sent += 1;
      this.#unacked.push({ sequence, content });
      this.pendingBytes += content.length;
    }
    this.ackOwed = false;
    return this.#frame(sequence, content);
  }

  /** Throws InvalidArgument / FRAME_TOO_LARGE if the peer would not take a frame with this content. */
  checkSize(content: Uint8Array, limit: number): void {
    const size = this.#taskBytes().length + content.length;
    if (size + MAX_FRAME_OVERHEAD <= limit) return;
    throw new InvalidArgument(
      `a frame of ${size} bytes is larger than the ${limit} that the peer takes; pass large content by URL`,
      { reason: "FRAME_TOO_LARGE", metadata: { size: `${size}`, limit: `${limit}`, task_id: this.ref.taskId } },
    );
  }

  /** Judges the sequence of an incoming frame; a frame to be applied counts as received. */
  take(sequence: number): Verdict {
    if (sequence > this.received + 1) return "gap";
    this.ackOwed = true;
    if (sequence <= this.received) return "duplicate";
    this.received = this.applied = sequence;
    return "apply";
  }

  /** Forgets the frames up to `sequence`: the peer has applied them. */
  acked(sequence: number): void {
    let count = 0;
    for (const frame of this.#unacked) {
      if (frame.sequence > sequence) break;
      this.pendingBytes -= frame.content.length;
      count += 1;
    }
    if (count > 0) this.#unacked.splice(0, count);
  }

  /** Whether the peer has not acknowledged every sequenced frame. */
  get hasUnacked(): boolean {
    return this.#unacked.length > 0;
  }

  /** Returns the frames to send again, in order, with the ack and the epoch as of now. */
  unacked(): OutgoingFrame[] {
    return this.#unacked.map(({ sequence, content }) => this.#frame(sequence, content));
  }

  #frame(sequence: number, content: Uint8Array): OutgoingFrame {
    const stamp = [this.#taskBytes()];
    if (sequence > 0) stamp.push(Uint8Array.of(0x10), encodeVarint(sequence));
    if (this.applied > 0) stamp.push(Uint8Array.of(0x18), encodeVarint(this.applied));
    const size = stamp.reduce((sum, each) => sum + each.length, content.length);
    return { taskId: this.ref.taskId, head: joined(Uint8Array.of(FRAMES_KEY), encodeVarint(size), ...stamp), content };
  }

  /** The field `task` (1); of the reference only the epoch changes. */
  #taskBytes(): Uint8Array {
    if (this.ref.epoch !== this.#refEpoch) {
      const ref = toBinary(TaskRefSchema, this.ref);
      this.#refEpoch = this.ref.epoch;
      this.#refBytes = joined(Uint8Array.of(FRAMES_KEY), encodeVarint(ref.length), ref);
    }
    return this.#refBytes;
  }
}

/** Where the messages of a queue go. */
export interface MessageWriter {
  /** Takes a message. Returns false if no further one should come before `FrameQueue.resume` is called. */
  write(message: Uint8Array): boolean;
  /** Is called once, after the last message. */
  ended(): void;
}

/**
 * The frames that wait to leave on one stream. A frame that is alone leaves at once, an ack alone after ACK_WAIT at the
 * latest; on a stream that is busy with several tasks frames wait up to HOLD for further ones. At most 2,000 droppable
 * frames wait. A peer that lets 50,000 frames wait does not read, and loses the stream, not its tasks.
 */
export class FrameQueue {
  /** The soft limit of a message's size; lower it if the peer takes less. */
  batchBytes = SOFT_BATCH_BYTES;
  overflowed = false;
  #frames: { frame: OutgoingFrame; droppable: boolean }[] = [];
  #droppable = 0;
  #isClosed = false;
  #hasEnded = false;
  #isBlocked = false;
  #isReady = false;
  #writer: MessageWriter | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ackTimer: NodeJS.Timeout | undefined;
  #heldUntil = 0;

  constructor(
    readonly maxDroppable = 2_000,
    readonly maxWaiting = 50_000,
  ) {}

  get length(): number {
    return this.#frames.length;
  }

  /** Whether no more frames are taken. */
  get closed(): boolean {
    return this.#isClosed;
  }

  /** Starts to write. */
  start(writer: MessageWriter): void {
    this.#writer = writer;
    this.#schedule();
  }

  /** Goes on after `write` has returned false. */
  resume(): void {
    this.#isBlocked = false;
    this.#schedule();
  }

  /** Queues a frame. Returns false if it was dropped: too many frames wait, or the stream has ended. */
  put(frame: OutgoingFrame, droppable = false): boolean {
    if (this.#isClosed || (droppable && this.#droppable >= this.maxDroppable)) return false;
    if (this.#frames.length >= this.maxWaiting) {
      this.overflowed = true;
      this.#frames = [];
      this.close();
      return false;
    }
    if (droppable) this.#droppable += 1;
    this.#frames.push({ frame, droppable });
    if (frame.content.length > 0) {
      this.#isReady = true;
      this.#schedule();
    } else if (!this.#isReady) {
      this.#ackTimer ??= outsideOfCalls(() =>
        setTimeout(() => {
          this.#ackTimer = undefined;
          this.#isReady = true;
          this.#schedule();
        }, ACK_WAIT),
      );
    }
    return true;
  }

  /** Ends the queue; the writer ends after the frames that wait. */
  close(): void {
    this.#isClosed = true;
    this.#isReady = true;
    this.#schedule();
  }

  /** Ends the queue at once: nothing takes its frames any more. */
  abandon(): void {
    this.#frames = [];
    this.#droppable = 0;
    this.#isBlocked = false;
    this.close();
  }

  /** Frames that are queued within one turn of the loop share a message. */
  #schedule(): void {
    if (this.#writer === undefined || this.#isBlocked || !this.#isReady || this.#hasEnded) return;
    if (this.#immediate !== undefined || this.#timer !== undefined) return;
    const wait = this.#isClosed ? 0 : this.#heldUntil - now();
    outsideOfCalls(() => {
      if (wait > 0.5) {
        this.#timer = setTimeout(() => {
          this.#timer = undefined;
          this.#flush();
        }, Math.ceil(wait));
      } else {
        this.#immediate = setImmediate(() => {
          this.#immediate = undefined;
          this.#flush();
        });
      }
    });
  }

  #flush(): void {
    if (this.#isBlocked || this.#hasEnded) return;
    if (this.#frames.length > 0) {
      const message = this.#take();
      this.#isBlocked = this.#writer?.write(message) === false;
    }
    if (this.#frames.length > 0) {
      this.#schedule();
    } else if (this.#isClosed) {
      this.#hasEnded = true;
      clearTimeout(this.#ackTimer);
      this.#writer?.ended();
    }
  }

  /** Removes the frames of the next message. */
  #take(): Uint8Array {
    const chunks: Uint8Array[] = [];
    const tasks = new Set<string>();
    let room = this.batchBytes;
    let count = 0;
    for (const { frame, droppable } of this.#frames) {
      room -= frame.head.length + frame.content.length;
      if (room < 0 && count > 0) break;
      count += 1;
      if (droppable) this.#droppable -= 1;
      chunks.push(frame.head, frame.content);
      if (frame.content.length > 0 && frame.taskId !== undefined) tasks.add(frame.taskId); // not an ack alone
    }
    this.#frames.splice(0, count);
    const isEmpty = this.#frames.length === 0;
    if (isEmpty) {
      this.#isReady = this.#isClosed;
      clearTimeout(this.#ackTimer);
      this.#ackTimer = undefined;
    }
    const hold = !isEmpty || tasks.size < 2 ? 0 : HOLD * Math.min(1, tasks.size / FULL_LOAD) ** 2;
    this.#heldUntil = hold > 0 ? now() + hold : 0;
    return joined(...chunks);
  }
}

/** Yields the frames of a raw message (field 1, repeated), so that a frame that cannot be decoded affects no other one. */
export function* splitFrames(message: Uint8Array): Generator<Uint8Array, void, undefined> {
  let position = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; shift <= 63; shift += 7) {
      const byte = message[position];
      if (byte === undefined) throw malformed("truncated varint");
      position += 1;
      value += (byte & 0x7f) * 2 ** shift;
      if ((byte & 0x80) === 0) return value;
    }
    throw malformed("truncated varint");
  };
  while (position < message.length) {
    const key = varint();
    const number = Math.floor(key / 8);
    if (number === 0) throw malformed("a field without a number");
    switch (key % 8) {
      case 0:
        varint();
        break;
      case 1:
        position += 8;
        break;
      case 2: {
        const length = varint();
        if (position + length > message.length) throw malformed("truncated message");
        if (number === 1) yield message.subarray(position, position + length);
        position += length;
        break;
      }
      case 5:
        position += 4;
        break;
      default:
        throw malformed("unsupported wire type");
    }
    if (position > message.length) throw malformed("truncated message");
  }
}

/** Whether a message has more than MAX_FRAMES frames, told without decoding them. */
export function hasTooManyFrames(message: Uint8Array): boolean {
  if (message.length <= 2 * MAX_FRAMES) return false; // a frame takes two bytes at least
  let count = 0;
  try {
    for (const frame of splitFrames(message)) {
      count += frame.length >= 0 ? 1 : 0;
      if (count > MAX_FRAMES) return true;
    }
  } catch {
    return false;
  }
  return false;
}

/** Returns the task of a frame that cannot be decoded; undefined if not even that can be read. */
export function taskOfFrame(raw: Uint8Array): TaskRef | undefined {
  try {
    for (const part of splitFrames(raw)) return fromBinary(TaskRefSchema, part);
  } catch {
    return undefined;
  }
  return undefined;
}
