/** Pieces of content of tasks, answers and questions, with the four forms of an A2A Part. */
import { create, toBinary } from "@bufbuild/protobuf";
import { PartSchema, type Part as PartMessage } from "../api/archon/api/common/v1/common_pb.js";
import { InvalidArgument } from "../errors.js";
import { CONTENT_ROOM, JSON_TYPE, jsonText, MAX_CHECKED_BYTES, withoutSurrogates } from "../wire.js";

/** One of a text, inline bytes, a URL, or one JSON value as text; an empty text counts if it is given. */
export interface Part {
  readonly text?: string;
  readonly raw?: Uint8Array;
  readonly url?: string;
  readonly dataJson?: string;
  /** For display, without a path. */
  readonly filename?: string;
  readonly mediaType?: string;
  /** Keys in reverse DNS. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A text, or parts. */
export type Content = string | readonly Part[];

/** Returns a JSON value as a part. Throws InvalidArgument if it is no JSON value. */
export function jsonPart(value: unknown): Part {
  return { dataJson: jsonText(value), mediaType: JSON_TYPE };
}

/** Returns a part as a message. */
export function partToProto(part: Part): PartMessage {
  const { text, raw, url, dataJson } = part;
  const given = [text, raw, url, dataJson].filter((each) => each !== undefined);
  if (given.length !== 1) throw new InvalidArgument("a part has exactly one of text, raw, url and dataJson");
  let content: PartMessage["content"] = { case: "text", value: withoutSurrogates(text ?? "") };
  if (raw !== undefined) content = { case: "raw", value: raw };
  if (url !== undefined) content = { case: "url", value: withoutSurrogates(url) };
  if (dataJson !== undefined) content = { case: "dataJson", value: withoutSurrogates(dataJson) };
  const { filename = "", mediaType = "", metadata = {} } = part;
  return create(PartSchema, { content, filename: withoutSurrogates(filename), mediaType, metadata: { ...metadata } });
}

/** Returns the part that a message has. One without content, as of a later version, is an empty text. */
export function partFromProto(message: PartMessage): Part {
  const base = {
    ...(message.filename && { filename: message.filename }),
    ...(message.mediaType && { mediaType: message.mediaType }),
    ...(Object.keys(message.metadata).length > 0 && { metadata: { ...message.metadata } }),
  };
  switch (message.content.case) {
    case "raw":
      return { ...base, raw: message.content.value };
    case "url":
      return { ...base, url: message.content.value };
    case "dataJson":
      return { ...base, dataJson: message.content.value };
    default:
      return { ...base, text: message.content.value ?? "" };
  }
}

/** Returns a content as messages; an empty text is no part. */
export function contentToProto(content: Content): PartMessage[] {
  if (typeof content === "string") return [create(PartSchema, { content: { case: "text", value: withoutSurrogates(content) } })];
  return content.map(partToProto);
}

/** Returns a content as messages. Throws InvalidArgument / MESSAGE_TOO_LARGE if it does not fit in a message. */
export function checkedContent(content: Content, what: string): PartMessage[] {
  const parts = contentToProto(content);
  const size = parts.reduce((sum, part) => sum + toBinary(PartSchema, part).length, 0);
  const limit = MAX_CHECKED_BYTES - CONTENT_ROOM;
  if (size <= limit) return parts;
  throw new InvalidArgument(
    `${what} has ${size} bytes, more than the ${limit} that a message takes; pass large content by URL`,
    { reason: "MESSAGE_TOO_LARGE", metadata: { size: `${size}` } },
  );
}

/** Whether a part is text, or a JSON value, which is read as text. */
export function isText(part: PartMessage): boolean {
  if (part.content.case === "text") return true;
  const mediaType = (part.mediaType.split(";")[0] ?? "").trim().toLowerCase();
  return part.content.case === "dataJson" && (mediaType === "" || mediaType === JSON_TYPE);
}

/** Returns the text parts and the JSON values, joined by empty lines. */
export function textOf(parts: readonly PartMessage[]): string {
  return parts
    .filter(isText)
    .map((part) => String(part.content.value ?? ""))
    .join("\n\n");
}
