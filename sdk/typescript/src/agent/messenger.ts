/** The messages of one attempt to other agents of its run, and theirs to it. */
import { create, toBinary } from "@bufbuild/protobuf";
import { createHash } from "node:crypto";
import { PeerMessageSchema, type PeerMessage } from "../api/archon/api/agent/v1/message_pb.js";
import { SubscribeSchema } from "../api/archon/api/agent/v1/session_pb.js";
import { PartSchema } from "../api/archon/api/common/v1/common_pb.js";
import { InvalidArgument, invalidField, type ArchonError } from "../errors.js";
import { fromFailure } from "../status.js";
import { MESSAGE_TYPES, messagePart, messageTypeToProto, type Message, type MessageType } from "../types/message.js";
import { partToProto } from "../types/part.js";
import { durationOf, withoutSurrogates } from "../wire.js";
import { Inbox, REPLY_PREFIX, type MessageOptions } from "./inbox.js";
import type { Link } from "./link.js";
import type { Delegated } from "./values.js";

/** The most bytes of a message's content. */
export const MAX_MESSAGE_BYTES = 64 * 1024;

/** The most characters of a message's id. */
export const MAX_MESSAGE_ID = 256;

const TOPICS = new Set(["broadcast", ...MESSAGE_TYPES.map((type) => `type:${type}`)]);

/** Options of a message. */
export interface SendOptions {
  /** A role, a step or a task; empty: all that have subscribed to `broadcast` or to `type:TYPE`. */
  readonly to?: string;
  readonly type?: MessageType;
  readonly correlationId?: string;
  /** After so long it is not delivered any more. */
  readonly ttlMs?: number;
  /** By default derived from the message: a later attempt that sends the same one does not send it twice. */
  readonly messageId?: string;
}

/** Options of a request. */
export interface RequestOptions {
  readonly type?: MessageType;
  /** 60 s by default. */
  readonly timeoutMs?: number;
  readonly messageId?: string;
  /** Saved with the delegation that the request becomes if no task of the receiver reads messages. */
  readonly checkpoint?: Uint8Array | string;
}

/** Sends and receives. It subscribes on the first call that receives. */
export class Messenger {
  readonly inbox = new Inbox();
  readonly #numbers = new Map<string, number>();
  #topics: Set<string> | undefined;

  constructor(readonly link: Link) {}

  /** Sends a message, and returns its id once the journal of the run has it. */
  async send(content: unknown, options: SendOptions & { expectsReply?: boolean }): Promise<string> {
    const { to = "", type = "notification", correlationId = "", ttlMs, expectsReply = false } = options;
    const part = partToProto(messagePart(content));
    const message = create(PeerMessageSchema, {
      receiverId: withoutSurrogates(to),
      messageType: messageTypeToProto(type),
      content: [part],
      correlationId: withoutSurrogates(correlationId),
      expectsReply,
    });
    const size = toBinary(PartSchema, part).length;
    if (size > MAX_MESSAGE_BYTES) {
      throw invalidField("content", `has ${size} bytes, at most ${MAX_MESSAGE_BYTES} are allowed; give large content by URL`);
    }
    const messageId = options.messageId ?? "";
    if (messageId.length > MAX_MESSAGE_ID) {
      throw new InvalidArgument(`the messageId has ${messageId.length} characters, at most ${MAX_MESSAGE_ID}`);
    }
    message.messageId = messageId || this.#id(message);
    if (ttlMs !== undefined) {
      if (!(ttlMs > 0)) throw new InvalidArgument(`the ttl of a message is ${ttlMs} ms, and must be above 0`);
      message.ttl = durationOf(ttlMs);
    }
    const result = await this.link.sendMessage(message);
    if (result.failure !== undefined) throw fromFailure(result.failure);
    this.lastSeq = Number(result.seq);
    return message.messageId;
  }

  /** The number of the last message that was sent. */
  lastSeq = 0;

  /** Returns the id of the n-th message that is equal to this one: a later attempt gives the same message the same id. */
  #id(message: PeerMessage): string {
    const digest = createHash("sha256").update(toBinary(PeerMessageSchema, message)).digest("hex").slice(0, 32);
    const number = (this.#numbers.get(digest) ?? 0) + 1;
    this.#numbers.set(digest, number);
    return `${message.expectsReply ? REPLY_PREFIX : ""}${digest}.${number}`;
  }

  /** Subscribes to the messages for this task, and to topics. */
  subscribe(topics: readonly string[] = []): void {
    const unknown = topics.find((topic) => !TOPICS.has(topic));
    if (unknown !== undefined) throw invalidField("topics", `must be broadcast or type:TYPE, and not '${unknown}'`);
    const added = topics.filter((topic) => !this.#topics?.has(topic));
    if (this.#topics !== undefined && added.length === 0) return;
    this.link.subscribe(create(SubscribeSchema, { topics: added }));
    this.#topics = new Set([...(this.#topics ?? []), ...added]);
  }

  /** Subscribes, and yields the received messages. */
  messages(options: MessageOptions): AsyncGenerator<Message, void, undefined> {
    this.subscribe(options.topics);
    return this.inbox.messages(options);
  }

  /** Sends a message and returns the reply to it. */
  async request(content: unknown, to: string, options: RequestOptions): Promise<Message> {
    this.subscribe();
    const { type = "task_request", timeoutMs = 60_000, messageId = "" } = options;
    const own = messageId ? { messageId: `${REPLY_PREFIX}${messageId}` } : {};
    const id = await this.send(content, { to, type, expectsReply: true, ...own });
    return this.inbox.replyTo(id, timeoutMs);
  }

  /** Answers a message. */
  reply(message: Message, content: unknown, type: MessageType = "task_response"): Promise<string> {
    return this.send(content, { to: message.senderTaskId, type, correlationId: message.messageId });
  }

  /** Ends all waits: the attempt is over. */
  end(error: ArchonError): void {
    this.inbox.end(error);
  }
}

/** Returns a content as the text of a task of its own. */
export function taskText(content: unknown): string {
  let value = content;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const fields = value as Record<string, unknown>;
    value = fields["description"] || fields["issue"] || fields["query"] || value;
  }
  return typeof value === "string" ? value : (messagePart(value).dataJson ?? "");
}

/** Returns the answer of a delegated request as a message. */
export function delegatedAnswer(role: string, done: Delegated): Message {
  return {
    senderId: role,
    receiverId: "",
    type: "task_response",
    content: done.text,
    messageId: "",
    correlationId: "",
    senderTaskId: "",
    timeMs: Date.now(),
    seq: 0,
    parts: done.parts,
  };
}
