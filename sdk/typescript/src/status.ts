/**
 * Conversion of errors: to and from gRPC status with google.rpc details, and the flat `Failure` of frames and events. Details
 * follow https://google.aip.dev/193 and stay below 4 KB: larger trailers fail at random.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyPack, anyUnpack, type Any } from "@bufbuild/protobuf/wkt";
import { Metadata, status as grpcStatus, type ServiceError } from "@grpc/grpc-js";
import { randomBytes } from "node:crypto";
import {
  FailureClass as FailureClassEnum,
  FailureSchema,
  Retry as RetryEnum,
  Severity as SeverityEnum,
  type Failure,
} from "./api/archon/api/common/v1/failure_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./api/google/rpc/error_details_pb.js";
import { StatusSchema, type Status } from "./api/google/rpc/status_pb.js";
import {
  ArchonError,
  DeadlineExceeded,
  errorOfCode,
  Internal,
  InvalidArgument,
  kindOf,
  OperationCancelled,
  type Code,
  type FailureClass,
  type FieldViolation,
  type Retry,
  type Severity,
} from "./errors.js";
import { log } from "./log.js";
import { CODES, REASONS, type Reason } from "./reasons.js";
import { cut, durationOf, toMs, withoutSurrogates } from "./wire.js";

export const DOMAIN = "archon.dev";
export const DETAILS_KEY = "grpc-status-details-bin";
const MAX_DETAILS_BYTES = 4096;

/** The metadata key of a reason that is not in the contract. */
const REASON_KEY = "archon.dev/reason";

/** The metadata key of a kind that differs from the reason's, in an RPC's ErrorInfo. */
const KIND_KEY = "archon.dev/kind";

/** Causes of a failure; further ones are left out. */
const MAX_CAUSES = 16;

const TOO_LARGE = /larger than max|exceeds maximum size|message larger than/i;
const NOT_CONNECTED = /No connection established|failed to connect|ECONNREFUSED/i;

/** The texts of grpc-js about a connection that was lost in the middle of a call: it has other codes for them. */
const CONNECTION_LOST = /Received RST_STREAM with code|Session closed|Call cancelled$|ECONNRESET|Connection dropped|GOAWAY/i;

const CODE_NAMES = new Map<number, Code>(Object.entries(CODES).map(([name, number]) => [number, name as Code]));
const REASON_NAMES = new Map<number, Reason>(
  Object.entries(REASONS).map(([name, entry]) => [entry.number, name as Reason]),
);

/** Returns the name of a gRPC code; UNKNOWN for a number that is none. */
export function codeName(number: number): Code {
  return CODE_NAMES.get(number) ?? "UNKNOWN";
}

function isServiceError(raised: unknown): raised is ServiceError {
  return raised instanceof Error && typeof (raised as ServiceError).code === "number" && "details" in raised;
}

/**
 * Converts anything that was thrown to an ArchonError. An unexpected error becomes Internal of this kind: its text is only
 * logged, under an incident id that the caller receives.
 */
export function asError(raised: unknown, kind = ""): ArchonError {
  if (raised instanceof ArchonError) return raised;
  if (isServiceError(raised)) return fromServiceError(raised);
  if (raised instanceof Error && raised.name === "TimeoutError") return new DeadlineExceeded("the deadline passed");
  if (raised instanceof Error && raised.name === "AbortError") return new OperationCancelled("the call was cancelled");
  const incident = randomBytes(6).toString("hex");
  log("error", `internal error, incident ${incident}`, raised);
  return new Internal(`internal error; see incident ${incident} in the log of the process`, {
    metadata: { incident },
    kind,
  });
}

/** Returns the error with which bytes that cannot be decoded are answered. */
export function malformed(message = "the bytes are not a message of the contract, or a string is not UTF-8"): ArchonError {
  return new InvalidArgument(message, { reason: "MALFORMED_MESSAGE" });
}

/** Returns google.rpc.Status, at most 4 KB: long texts are cut, details that do not fit are dropped. */
export function toStatus(error: ArchonError): Status {
  const status = create(StatusSchema, { code: CODES[error.code], message: cut(error.message || error.reason, 1024) });
  let size = toBinary(StatusSchema, status).length;
  const add = (detail: Any): void => {
    const more = detail.typeUrl.length + detail.value.length + 16;
    if (size + more <= MAX_DETAILS_BYTES) {
      status.details.push(detail);
      size += more;
    }
  };
  const entries = Object.entries(error.metadata).slice(0, 6);
  const metadata = Object.fromEntries(entries.map(([key, value]) => [key.slice(0, 63), cut(value, 256)]));
  if (error.kind !== kindOf(error.code, error.reason)) metadata[KIND_KEY] = error.kind.slice(0, 63);
  const info = create(ErrorInfoSchema, { reason: error.reason.slice(0, 63), domain: DOMAIN, metadata });
  add(anyPack(ErrorInfoSchema, info));
  if (error.retryDelayMs !== undefined) {
    add(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: durationOf(error.retryDelayMs) })));
  }
  if (error.fieldViolations.length > 0) {
    const fieldViolations = error.fieldViolations
      .slice(0, 5)
      .map(({ field, description }) => ({ field: cut(field, 64), description: cut(description, 128) }));
    add(anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations })));
  }
  return status;
}

/** The inverse of `toStatus`: an error of the same class, with the same reason and details. */
export function fromStatus(status: Status): ArchonError {
  let reason = "";
  let metadata: Record<string, string> = {};
  let retryDelayMs: number | undefined;
  const fieldViolations: FieldViolation[] = [];
  for (const packed of status.details) {
    const info = anyUnpack(packed, ErrorInfoSchema);
    if (info !== undefined) {
      if (info.domain === DOMAIN) [reason, metadata] = [info.reason, { ...info.metadata }];
      continue;
    }
    const retry = anyUnpack(packed, RetryInfoSchema);
    if (retry !== undefined) retryDelayMs = toMs(retry.retryDelay);
    const bad = anyUnpack(packed, BadRequestSchema);
    for (const { field, description } of bad?.fieldViolations ?? []) fieldViolations.push({ field, description });
  }
  const kind = metadata[KIND_KEY] ?? "";
  delete metadata[KIND_KEY];
  return errorOfCode(codeName(status.code), status.message, { reason, metadata, kind, fieldViolations, retryDelayMs });
}

/** Returns the error that the server raised, or that of the code if the server is not part of Archon. */
export function fromServiceError(raised: ServiceError): ArchonError {
  for (const value of raised.metadata?.get(DETAILS_KEY) ?? []) {
    if (typeof value === "string") continue;
    try {
      return fromStatus(fromBinary(StatusSchema, value));
    } catch {
      break; // not a google.rpc.Status
    }
  }
  const text = connectionText(raised.details || raised.message);
  if (raised.code === grpcStatus.RESOURCE_EXHAUSTED && TOO_LARGE.test(text)) {
    return new InvalidArgument(text, { reason: "MESSAGE_TOO_LARGE" });
  }
  const isOwn = raised.code === grpcStatus.INTERNAL || raised.code === grpcStatus.CANCELLED;
  if (isOwn && CONNECTION_LOST.test(text)) return errorOfCode("UNAVAILABLE", `the connection was lost: ${text}`);
  return errorOfCode(codeName(raised.code), text);
}

/** Returns a text of grpc-js; of one about a connection that could not be made, what a person can use. */
export function connectionText(text: string): string {
  const cause = /^No connection established\. Last error: (?:Error: )?(.*?)\.? Resolution note: ?(.*)$/s.exec(text);
  if (cause === null) return text;
  const more = cause[2] ? ` (${cause[2]})` : "";
  return `No connection established: ${cause[1]}${more}; is it running, and is the address right?`;
}

/** Whether a call with this error was taken by no connection: its server has not seen it. */
export function neverConnected(error: ArchonError): boolean {
  return error.code === "UNAVAILABLE" && NOT_CONNECTED.test(error.message);
}

/** Returns an error as grpc-js sends it, with its details in the trailers. */
export function toServiceError(error: ArchonError): Partial<ServiceError> {
  const status = toStatus(error);
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(toBinary(StatusSchema, status)));
  return Object.assign(new Error(status.message), { code: status.code, details: status.message, metadata });
}

/** Returns the flat form for frames and events. The causes of a cause follow it. */
export function toFailure(error: ArchonError): Failure {
  const failure = flat(error);
  failure.causes = allCauses(error).map(flat);
  return failure;
}

function flat(error: ArchonError): Failure {
  const metadata: Record<string, string> = {};
  for (const [key, value] of Object.entries(error.metadata)) metadata[withoutSurrogates(key)] = withoutSurrogates(value);
  const known = Object.hasOwn(REASONS, error.reason) ? REASONS[error.reason as Reason].number : 0;
  if (known === 0) metadata[REASON_KEY] = error.reason;
  return create(FailureSchema, {
    code: CODES[error.code],
    reason: known,
    message: cut(error.message || error.reason, 1024),
    failureClass: FailureClassEnum[error.failureClass],
    retry: RetryEnum[error.retry],
    severity: SeverityEnum[error.severity],
    kind: error.kind,
    metadata,
    fieldViolations: error.fieldViolations.map(({ field, description }) => ({
      field: withoutSurrogates(field),
      description: withoutSurrogates(description),
    })),
    ...(error.retryDelayMs === undefined ? {} : { retryDelay: durationOf(error.retryDelayMs) }),
  });
}

function allCauses(error: ArchonError): ArchonError[] {
  const causes: ArchonError[] = [];
  let waiting = [...error.causes];
  for (let cause = waiting.shift(); cause !== undefined && causes.length < MAX_CAUSES; cause = waiting.shift()) {
    causes.push(cause);
    waiting = [...cause.causes, ...waiting];
  }
  return causes;
}

/** The inverse of `toFailure`. An enum value that this version does not know reads as unset. */
export function fromFailure(failure: Failure | undefined): ArchonError {
  if (failure === undefined) return errorOfCode("UNKNOWN", "");
  const metadata = { ...failure.metadata };
  const reason = metadata[REASON_KEY] ?? REASON_NAMES.get(failure.reason) ?? "";
  delete metadata[REASON_KEY];
  return errorOfCode(codeName(failure.code), failure.message, {
    reason,
    metadata,
    fieldViolations: failure.fieldViolations.map(({ field, description }) => ({ field, description })),
    retryDelayMs: failure.retryDelay === undefined ? undefined : toMs(failure.retryDelay),
    kind: failure.kind,
    failureClass: known(FailureClassEnum, failure.failureClass) as FailureClass | undefined,
    severity: known(SeverityEnum, failure.severity) as Severity | undefined,
    retry: known(RetryEnum, failure.retry) as Retry | undefined,
    causes: failure.causes.map(fromFailure),
  });
}

function known(values: Record<number, string>, number: number): string | undefined {
  return number === 0 ? undefined : values[number];
}
