/** The result of a call of a shared tool, for the caller and for the owner. */
import { create } from "@bufbuild/protobuf";
import { ToolResultSchema, ToolStatus, type ToolResult } from "../api/archon/api/tool/v1/tool_pb.js";
import { InvalidArgument, UnknownFailure, type ArchonError } from "../errors.js";
import { byteLength, durationOf, jsonText, toMs, withoutSurrogates } from "../wire.js";

/** Bytes of the content of a result as JSON. A larger one is an error result. */
const MAX_RESULT_BYTES = 2 * 1024 * 1024;
const MAX_ERROR = 4 * 1024;
const MAX_METADATA = 16;
const MAX_METADATA_TEXT = 256;

/** How a call of a shared tool ended. */
export type SharedToolStatus = "success" | "error" | "timeout";

/** The result of a call: a JSON value as `content`, or an `errorMessage` in one sentence. */
export interface SharedToolResult {
  readonly status: SharedToolStatus;
  readonly content?: unknown;
  readonly errorMessage: string;
  /** The time that the tool itself took. */
  readonly durationMs: number;
  /** Of a failed call it may have `code`, `reason` and `kind` of the failure. */
  readonly metadata: Readonly<Record<string, string>>;
}

const NUMBERS = { success: ToolStatus.SUCCESS, error: ToolStatus.ERROR, timeout: ToolStatus.TIMEOUT } as const;

/** Returns the result that a message has, which may come from anybody. Throws UnknownFailure if it is no result. */
export function resultFromProto(message: ToolResult): SharedToolResult {
  const status = (Object.entries(NUMBERS).find(([, number]) => number === message.status)?.[0] ?? "") as SharedToolStatus | "";
  if (status === "") throw new UnknownFailure("the owner of the tool answered without a status", { kind: "tool.crash" });
  let content: unknown;
  if (status === "success" && message.contentJson) {
    try {
      content = JSON.parse(message.contentJson);
    } catch {
      throw new UnknownFailure("the owner of the tool answered with a content that is not JSON", { kind: "tool.crash" });
    }
  }
  const metadata = Object.entries(message.metadata).slice(0, MAX_METADATA);
  const error = message.errorMessage.slice(0, MAX_ERROR);
  return {
    status,
    content,
    errorMessage: status === "success" ? error : error || `the tool ended with the status ${status}`,
    durationMs: toMs(message.executionTime),
    metadata: Object.fromEntries(metadata.map(([key, value]) => [key, value.slice(0, MAX_METADATA_TEXT)])),
  };
}

/** Returns the value of a tool as a message; an error result if it is too large or not JSON. */
export function successToProto(content: unknown, durationMs: number): ToolResult {
  let contentJson: string;
  try {
    contentJson = jsonText(content ?? null);
  } catch (error) {
    return failureToProto(new InvalidArgument(`the result is not a JSON value: ${(error as Error).message}`, { kind: "tool.crash" }), durationMs);
  }
  const size = byteLength(contentJson);
  if (size > MAX_RESULT_BYTES) {
    const why = `the result has ${size} bytes, more than the ${MAX_RESULT_BYTES} of a shared tool`;
    return failureToProto(new InvalidArgument(why, { kind: "tool.crash" }), durationMs);
  }
  return create(ToolResultSchema, { status: ToolStatus.SUCCESS, contentJson, executionTime: durationOf(durationMs) });
}

/** Returns the message of a call that failed. */
export function failureToProto(error: ArchonError, durationMs: number): ToolResult {
  return create(ToolResultSchema, {
    status: ToolStatus.ERROR,
    errorMessage: withoutSurrogates(error.message.slice(0, MAX_ERROR)),
    executionTime: durationOf(durationMs),
    metadata: { code: error.code, reason: error.reason, kind: error.kind },
  });
}

/** Returns the message of a call that was not answered in time. */
export function lateToProto(ms: number): ToolResult {
  return create(ToolResultSchema, {
    status: ToolStatus.TIMEOUT,
    errorMessage: `no answer within ${Math.round(ms / 10) / 100} s`,
    executionTime: durationOf(ms),
  });
}
