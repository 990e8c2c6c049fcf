/** In place of @bufbuild/protobuf and its well-known types, whose types the page and the SDK use. */
import { create, DURATION, TIMESTAMP } from "./messages.js";
import type { Span } from "./times.js";

export { create, fromJson, toJson } from "./messages.js";
export const DurationSchema = { typeName: DURATION };
export const TimestampSchema = { typeName: TIMESTAMP };

const ofMs = (typeName: string, ms: number): object => {
  const seconds = typeName === DURATION ? Math.trunc(ms / 1_000) : Math.floor(ms / 1_000);
  return create({ typeName }, { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1_000) * 1e6) });
};
export const durationFromMs = (ms: number): object => ofMs(DURATION, ms);
export const timestampFromMs = (ms: number): object => ofMs(TIMESTAMP, ms);
export const durationMs = ({ seconds, nanos }: Span): number => Number(seconds) * 1_000 + Math.round(nanos / 1e6);
export const timestampMs = durationMs;

/** The SDK has functions that use the binary form. The page calls none of them. */
const withoutBinary = (): never => {
  throw new Error("the page has no binary form of messages");
};
export const [toBinary, fromBinary, anyPack, anyUnpack] = [withoutBinary, withoutBinary, withoutBinary, withoutBinary];
