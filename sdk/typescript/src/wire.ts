/** Conversions between values and the messages that all areas of the contract share: durations, times, texts, varints. */
import { create } from "@bufbuild/protobuf";
import { DurationSchema, TimestampSchema, type Duration, type Timestamp } from "@bufbuild/protobuf/wkt";
import { InvalidArgument } from "./errors.js";

/** The largest message that senders send; receivers refuse a larger one with a typed error. */
export const MAX_CHECKED_BYTES = 4 * 1024 * 1024;

/** Bytes of a message that content leaves for all other fields. */
export const CONTENT_ROOM = 4096;

export const JSON_TYPE = "application/json";

const MAX_SECONDS = 253_402_300_799;

/** Returns the milliseconds of a duration, or since the Unix epoch of a timestamp, with fractions of a microsecond cut. */
export function toMs(message: Duration | Timestamp | undefined): number {
  if (message === undefined) return 0;
  return Number(message.seconds) * 1000 + Math.trunc(message.nanos / 1000) / 1000;
}

function split(ms: number): { seconds: bigint; nanos: number } {
  const micros = Math.round(ms * 1000);
  if (!Number.isFinite(micros) || Math.abs(ms) > MAX_SECONDS * 1000) {
    throw new InvalidArgument(`${ms} is not a valid number of milliseconds`);
  }
  const seconds = Math.trunc(micros / 1e6);
  return { seconds: BigInt(seconds), nanos: Math.round(micros - seconds * 1e6) * 1000 };
}

/** Returns a duration of milliseconds. Throws InvalidArgument if the number is not finite, or too large. */
export function durationOf(ms: number): Duration {
  return create(DurationSchema, split(ms));
}

/** Returns a timestamp of milliseconds since the Unix epoch. */
export function timestampOf(ms: number): Timestamp {
  const { seconds, nanos } = split(ms);
  return create(TimestampSchema, nanos < 0 ? { seconds: seconds - 1n, nanos: nanos + 1e9 } : { seconds, nanos });
}

/** Returns a whole number as the contract has it. Throws InvalidArgument if it is none. `what` names it in errors. */
export function toInt64(value: number, what: string): bigint {
  if (Number.isSafeInteger(value)) return BigInt(value);
  throw new InvalidArgument(`${what} is ${value}: not a whole number below 2^53`);
}

/** Returns a text with a question mark for each lone surrogate, which no UTF-8 has. */
export function withoutSurrogates(text: string): string {
  return (typeof text === "string" ? text : `${text as unknown as number}`).replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "?");
}

/** Returns the length of a text in UTF-8. */
export function byteLength(text: string): number {
  return typeof Buffer === "undefined" ? new TextEncoder().encode(text).length : Buffer.byteLength(text, "utf8"); // browsers fold runs, too
}

/** Returns a text of at most `limit` bytes; a longer one is cut at a character and ends with three dots. */
export function cut(text: string, limit: number): string {
  const raw = Buffer.from(withoutSurrogates(text), "utf8");
  if (raw.length <= limit) return raw.toString("utf8");
  let end = limit - 3;
  while (end > 0 && ((raw[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${raw.subarray(0, end).toString("utf8")}...`;
}

/** Returns a number of 0 or more as a varint: the length and key of a field. */
export function encodeVarint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}

/** Returns the name of an enum's value in lower case without its prefix; empty if it is unset or unknown. */
export function enumName(values: Record<number, string>, value: number): string {
  return value === 0 ? "" : (values[value] ?? "").toLowerCase();
}

/** Returns a JSON text of a value. Throws InvalidArgument if it is no JSON value. */
export function jsonText(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new InvalidArgument(`the value is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (text === undefined) throw new InvalidArgument("the value is no JSON");
  return withoutSurrogates(text);
}
