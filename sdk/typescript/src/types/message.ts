/** Messages between agents of a run. */
import { create } from "@bufbuild/protobuf";
import {
  MessageType as MessageTypeEnum,
  PeerMessageSchema,
  type PeerMessage,
} from "../api/archon/api/agent/v1/message_pb.js";
import { InvalidArgument } from "../errors.js";
import { durationOf, enumName, timestampOf, toMs, withoutSurrogates } from "../wire.js";
import { jsonPart, partFromProto, partToProto, type Part } from "./part.js";

export const MESSAGE_TYPES = [
  "task_request",
  "task_response",
  "status_update",
  "error",
  "information_share",
  "context_request",
  "help_request",
  "notification",
] as const;

/** The purpose of a message. A message of an unknown type, as of a later version, is a notification. */
export type MessageType = (typeof MESSAGE_TYPES)[number];

/** A message from one agent to another, or to all subscribers of a topic if `receiverId` is empty. */
export interface Message {
  readonly senderId: string;
  readonly receiverId: string;
  readonly type: MessageType;
  /** A text, or another JSON value; of several parts, the text of all of them. */
  readonly content: unknown;
  readonly messageId: string;
  /** The id of the message that this one answers. */
  readonly correlationId: string;
  readonly senderTaskId: string;
  /** When it was accepted, in milliseconds since the Unix epoch. */
  readonly timeMs: number;
  readonly ttlMs?: number | undefined;
  /** The number of the event that holds it, in the run's journal. */
  readonly seq: number;
  readonly parts: readonly Part[];
}

/** Returns the content of a message as text; JSON if it is not a text. */
export function messageText(message: Message): string {
  return typeof message.content === "string" ? message.content : JSON.stringify(message.content);
}

/** Returns the number of a type in the contract. Throws InvalidArgument for an unknown one. */
export function messageTypeToProto(type: string): MessageTypeEnum {
  const number = MessageTypeEnum[type.toUpperCase() as keyof typeof MessageTypeEnum] as MessageTypeEnum | undefined;
  if (number !== undefined && MESSAGE_TYPES.includes(type as MessageType)) return number;
  throw new InvalidArgument(`'${type}' is not a type of messages: ${MESSAGE_TYPES.join(", ")}`);
}

/** Returns a text, or another JSON value, as a part. */
export function messagePart(content: unknown): Part {
  return typeof content === "string" ? { text: content } : jsonPart(content);
}

/** Returns the message of the contract as a plain value. */
export function messageFromProto(message: PeerMessage): Message {
  const parts = message.content.map(partFromProto);
  return {
    senderId: message.senderId,
    receiverId: message.receiverId,
    type: (enumName(MessageTypeEnum as unknown as Record<number, string>, message.messageType) ||
      "notification") as MessageType,
    content: contentOf(parts),
    messageId: message.messageId,
    correlationId: message.correlationId,
    senderTaskId: message.senderTaskId,
    timeMs: toMs(message.sendTime),
    ttlMs: message.ttl === undefined ? undefined : toMs(message.ttl),
    seq: Number(message.seq),
    parts,
  };
}

/** Returns a message as one of the contract. */
export function messageToProto(message: Partial<Message>): PeerMessage {
  const parts = message.parts?.length ? message.parts : [messagePart(message.content ?? "")];
  return create(PeerMessageSchema, {
    messageId: message.messageId ?? "",
    senderId: message.senderId ?? "",
    receiverId: withoutSurrogates(message.receiverId ?? ""),
    messageType: messageTypeToProto(message.type ?? "notification"),
    content: parts.map(partToProto),
    correlationId: withoutSurrogates(message.correlationId ?? ""),
    senderTaskId: message.senderTaskId ?? "",
    seq: BigInt(message.seq ?? 0),
    ...(message.timeMs && { sendTime: timestampOf(message.timeMs) }),
    ...(message.ttlMs !== undefined && { ttl: durationOf(message.ttlMs) }),
  });
}

function contentOf(parts: readonly Part[]): unknown {
  const [only] = parts;
  if (parts.length === 1 && only?.dataJson !== undefined) {
    try {
      return JSON.parse(only.dataJson);
    } catch {
      return only.dataJson;
    }
  }
  return parts.map((part) => part.text ?? part.dataJson ?? "").join("\n");
}
