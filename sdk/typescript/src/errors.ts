/**
 * The errors of Archon. Every error that the SDK raises on purpose is an `ArchonError`, of one subclass per gRPC code; the
 * `reason` tells apart what has the same code. The table of reasons and kinds is generated from the contract.
 */
import { KIND_OF_CODE, KINDS, REASON_OF_CODE, REASONS, type Code, type Kind, type Reason } from "./reasons.js";

export type { Code, Kind, Reason } from "./reasons.js";

/** How severe a failure is. */
export type Severity = "LOW" | "MEDIUM" | "HIGH" | "CRITICAL";

/** Whether a retry may succeed. */
export type Retry = "NEVER" | "LATER" | "ELSEWHERE";

/** The class of a kind of failure. */
export type FailureClass =
  | "UNSPECIFIED"
  | "MODEL"
  | "TOOL"
  | "PLANNING"
  | "MEMORY"
  | "COLLABORATION"
  | "INFRASTRUCTURE"
  | "INPUT";

/** An invalid field of a request, and why. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** What an error says besides its message. Whatever is not given follows from the reason. */
export interface ErrorOptions {
  /** A reason of the contract, or another constant in UPPER_SNAKE_CASE. */
  reason?: Reason | (string & {});
  metadata?: Readonly<Record<string, string>>;
  fieldViolations?: readonly FieldViolation[];
  /** Milliseconds to wait before a retry. */
  retryDelayMs?: number | undefined;
  kind?: Kind | (string & {});
  failureClass?: FailureClass | undefined;
  severity?: Severity | undefined;
  retry?: Retry | undefined;
  /** The errors that led to this one, outermost first. */
  causes?: readonly ArchonError[];
}

/** The base class of all errors of the SDK. */
export class ArchonError extends Error {
  readonly code: Code;
  readonly reason: string;
  readonly metadata: Record<string, string>;
  readonly fieldViolations: readonly FieldViolation[];
  /** Milliseconds to wait before a retry, or undefined if there is no advice. */
  readonly retryDelayMs: number | undefined;
  /** The kind in the catalogue of failures, such as `tool.timeout`. */
  readonly kind: string;
  readonly failureClass: FailureClass;
  readonly severity: Severity;
  readonly retry: Retry;
  readonly causes: readonly ArchonError[];

  constructor(message: string, options: ErrorOptions & { code?: Code } = {}) {
    super(message);
    this.name = new.target.name;
    this.code = options.code ?? "UNKNOWN";
    this.reason = options.reason || REASON_OF_CODE[this.code];
    this.metadata = { ...options.metadata };
    this.fieldViolations = options.fieldViolations ?? [];
    this.retryDelayMs = options.retryDelayMs;
    this.causes = options.causes ?? [];
    const known = options.kind && Object.hasOwn(KINDS, options.kind) ? (options.kind as Kind) : kindOf(this.code, this.reason);
    this.kind = options.kind || known;
    const entry = KINDS[known];
    this.failureClass = options.failureClass ?? entry.failureClass;
    this.severity = options.severity ?? entry.severity;
    this.retry = options.retry ?? (this.retryDelayMs === undefined ? entry.retry : "LATER");
  }
}

/** Returns the kind of a failure by its reason, or else by its code. */
export function kindOf(code: Code, reason: string): Kind {
  return Object.hasOwn(REASONS, reason) ? REASONS[reason as Reason].kind : KIND_OF_CODE[code];
}

/** CANCELLED: the caller gave up. */
export class OperationCancelled extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "CANCELLED" });
  }
}

/** UNKNOWN: an error of another system, without details. */
export class UnknownFailure extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "UNKNOWN" });
  }
}

/** INVALID_ARGUMENT: the request is invalid, whatever the state of the system. */
export class InvalidArgument extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "INVALID_ARGUMENT" });
  }
}

/** DEADLINE_EXCEEDED: the deadline passed before the operation was complete. */
export class DeadlineExceeded extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "DEADLINE_EXCEEDED" });
  }
}

/** NOT_FOUND: the named object does not exist. */
export class NotFound extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "NOT_FOUND" });
  }
}

/** ALREADY_EXISTS: the object exists and differs. */
export class AlreadyExists extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "ALREADY_EXISTS" });
  }
}

/** PERMISSION_DENIED: the caller is known and not allowed. */
export class PermissionDenied extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "PERMISSION_DENIED" });
  }
}

/** RESOURCE_EXHAUSTED: a limit is reached; `retryDelayMs` says when to try again. */
export class ResourceExhausted extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "RESOURCE_EXHAUSTED" });
  }
}

/** FAILED_PRECONDITION: the system is not in the required state; change the state first. */
export class FailedPrecondition extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "FAILED_PRECONDITION" });
  }
}

/** ABORTED: a concurrent operation won; read again and retry. */
export class Aborted extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "ABORTED" });
  }
}

/** OUT_OF_RANGE: the position is past the end. */
export class OutOfRange extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "OUT_OF_RANGE" });
  }
}

/** UNIMPLEMENTED: the method is in the contract but not served here. */
export class Unimplemented extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "UNIMPLEMENTED" });
  }
}

/** INTERNAL: a fault of a process; the details are in its log. */
export class Internal extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "INTERNAL" });
  }
}

/** UNAVAILABLE: the service is not reachable now; trying again may help. */
export class Unavailable extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "UNAVAILABLE" });
  }
}

/** DATA_LOSS: stored data cannot be read. */
export class DataLoss extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "DATA_LOSS" });
  }
}

/** UNAUTHENTICATED: the call has no valid credentials. */
export class Unauthenticated extends ArchonError {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { ...options, code: "UNAUTHENTICATED" });
  }
}

/** Throw it in a handler to reject the task for good: no other instance of the role is tried. */
export class TaskRejected extends FailedPrecondition {
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { reason: "REJECTED", ...options });
  }
}

const CLASSES: Record<Code, new (message: string, options?: ErrorOptions) => ArchonError> = {
  CANCELLED: OperationCancelled,
  UNKNOWN: UnknownFailure,
  INVALID_ARGUMENT: InvalidArgument,
  DEADLINE_EXCEEDED: DeadlineExceeded,
  NOT_FOUND: NotFound,
  ALREADY_EXISTS: AlreadyExists,
  PERMISSION_DENIED: PermissionDenied,
  RESOURCE_EXHAUSTED: ResourceExhausted,
  FAILED_PRECONDITION: FailedPrecondition,
  ABORTED: Aborted,
  OUT_OF_RANGE: OutOfRange,
  UNIMPLEMENTED: Unimplemented,
  INTERNAL: Internal,
  UNAVAILABLE: Unavailable,
  DATA_LOSS: DataLoss,
  UNAUTHENTICATED: Unauthenticated,
};

/** Returns the error of a code. */
export function errorOfCode(code: Code, message: string, options: ErrorOptions = {}): ArchonError {
  return new CLASSES[code](message, options);
}

/** Returns the error of a reason of the contract, with the code that belongs to it. A handler throws it to fail typed. */
export function errorOfReason(reason: Reason, message: string, options: Omit<ErrorOptions, "reason"> = {}): ArchonError {
  return errorOfCode(REASONS[reason].code, message, { ...options, reason });
}

/** Returns an InvalidArgument about one field. */
export function invalidField(field: string, description: string): InvalidArgument {
  return new InvalidArgument(`${field}: ${description}`, { fieldViolations: [{ field, description }] });
}
