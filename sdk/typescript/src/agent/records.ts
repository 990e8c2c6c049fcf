/** Records of model and tool calls, and their substitutes if contents are not recorded (ARCHON_RECORDS). */
import { clone, create } from "@bufbuild/protobuf";
import { createHmac, randomBytes } from "node:crypto";
import { CallRecordSchema, type CallRecord, type RecordKind } from "../api/archon/api/agent/v1/agent_pb.js";
import { log } from "../log.js";
import { byteLength, durationOf, jsonText, timestampOf } from "../wire.js";

const MAX_RECORD_BYTES = 1024 * 1024;

/** Hashes tell whether two texts of one process are equal; without the key texts cannot be guessed from them. */
const KEY = randomBytes(32);

/** How much of a call is recorded. */
export type RecordMode = "full" | "redacted" | "off";

/** Returns the mode of ARCHON_RECORDS; `redacted` for an unknown value, which may be meant to hide something. */
export function recordMode(): RecordMode {
  const value = process.env["ARCHON_RECORDS"] || "full";
  if (value === "full" || value === "redacted" || value === "off") return value;
  log("warning", `ARCHON_RECORDS is '${value}', expected full, redacted or off: contents are not recorded`);
  return "redacted";
}

/** Returns the recorded substitute of a JSON value: the size of its text, and a hash. */
export function redacted(value: unknown): object {
  const text = typeof value === "string" ? value : jsonText(value ?? null);
  const hash = createHmac("sha256", KEY).update(text).digest("hex").slice(0, 16);
  return { redacted: { chars: text.length, tokens: Math.ceil(text.length / 4), hash } };
}

/** Returns a record. `request` and `response` are JSON values, `startedMs` is milliseconds since the Unix epoch. */
export function callRecord(
  kind: RecordKind,
  target: string,
  request: unknown,
  response: unknown,
  startedMs: number,
  durationMs: number,
): CallRecord {
  return create(CallRecordSchema, {
    kind,
    target,
    requestJson: bounded(jsonText(request ?? null)),
    responseJson: bounded(jsonText(response ?? null)),
    startTime: timestampOf(startedMs),
    duration: durationOf(durationMs),
  });
}

/** Returns a copy without request and response, for a record that does not fit in a frame. */
export function withoutPayload(record: CallRecord): CallRecord {
  const small = clone(CallRecordSchema, record);
  small.requestJson = leftOut(byteLength(record.requestJson));
  small.responseJson = leftOut(byteLength(record.responseJson));
  return small;
}

function bounded(text: string): string {
  const size = byteLength(text);
  return size <= MAX_RECORD_BYTES ? text : leftOut(size);
}

function leftOut(size: number): string {
  return JSON.stringify({ "archon.dev/left-out": `${size} bytes, too large to record` });
}
