// Made by `python -m sdk.tables`. Do not edit.

/** The canonical gRPC codes by name. */
export const CODES = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

/** The name of a canonical gRPC code. */
export type Code = keyof typeof CODES;

/** The reasons of the contract, without their prefix: number in the enum, gRPC code, kind. */
export const REASONS = {
  /** Another system failed and gave no further detail. */
  UNKNOWN: { number: 1, code: "UNKNOWN", kind: "infrastructure.fault" },
  /** A field of the request is invalid; field_violations names it. */
  INVALID_ARGUMENT: { number: 2, code: "INVALID_ARGUMENT", kind: "input.invalid" },
  /** The bytes are not a message of the contract, or a string is not UTF-8. */
  MALFORMED_MESSAGE: { number: 3, code: "INVALID_ARGUMENT", kind: "input.invalid" },
  /** The run's goal is empty. */
  EMPTY_GOAL: { number: 4, code: "INVALID_ARGUMENT", kind: "input.invalid" },
  /** The message exceeds the size that the receiver accepts. */
  MESSAGE_TOO_LARGE: { number: 5, code: "INVALID_ARGUMENT", kind: "input.invalid" },
  /** One frame exceeds the session's maximum message size; only its task is affected. */
  FRAME_TOO_LARGE: { number: 6, code: "INVALID_ARGUMENT", kind: "input.invalid" },
  /** The caller cancelled the operation. */
  CANCELLED: { number: 7, code: "CANCELLED", kind: "input.cancelled" },
  /** The deadline passed before the operation completed. */
  DEADLINE_EXCEEDED: { number: 8, code: "DEADLINE_EXCEEDED", kind: "input.timeout" },
  /** The named object does not exist. */
  NOT_FOUND: { number: 9, code: "NOT_FOUND", kind: "input.not_found" },
  /** No run has this id. */
  UNKNOWN_RUN: { number: 10, code: "NOT_FOUND", kind: "input.not_found" },
  /** No instance serves this role and no edge names it. */
  UNKNOWN_ROLE: { number: 11, code: "NOT_FOUND", kind: "input.not_found" },
  /** No instance offers this capability. */
  UNKNOWN_CAPABILITY: { number: 12, code: "NOT_FOUND", kind: "input.not_found" },
  /** The lease has expired, was revoked, or never existed: register, or lease the tool, again. */
  LEASE_EXPIRED: { number: 13, code: "NOT_FOUND", kind: "collaboration.unresponsive_agent" },
  /** The object already exists and differs. */
  ALREADY_EXISTS: { number: 14, code: "ALREADY_EXISTS", kind: "input.invalid" },
  /** The same request id was used before with another payload. */
  REQUEST_ID_REUSED: { number: 15, code: "ALREADY_EXISTS", kind: "input.invalid" },
  /** The caller is identified and is not allowed to do this. */
  PERMISSION_DENIED: { number: 16, code: "PERMISSION_DENIED", kind: "input.permission" },
  /** A limit is reached; retry_delay says when to try again. */
  RESOURCE_EXHAUSTED: { number: 17, code: "RESOURCE_EXHAUSTED", kind: "infrastructure.rate_limit" },
  /** The object's state does not allow the operation. */
  FAILED_PRECONDITION: { number: 18, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** The edge would close a cycle; metadata["cycle"] names the path. */
  CYCLE: { number: 19, code: "FAILED_PRECONDITION", kind: "planning.cycle" },
  /** A frame arrived before Open or Ready. */
  SESSION_NOT_OPEN: { number: 20, code: "FAILED_PRECONDITION", kind: "collaboration.message_loss" },
  /** A second Open arrived on one stream. */
  SESSION_ALREADY_OPEN: { number: 21, code: "FAILED_PRECONDITION", kind: "collaboration.message_loss" },
  /** Open names another instance: the address has been reused. */
  WRONG_INSTANCE: { number: 22, code: "FAILED_PRECONDITION", kind: "collaboration.role_conflict" },
  /** Retention has removed the run's events. */
  RUN_EXPIRED: { number: 23, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** A concurrent operation won: read again and retry. */
  ABORTED: { number: 24, code: "ABORTED", kind: "collaboration.shared_state_conflict" },
  /** A newer stream of the same orchestrator has replaced this one. */
  SESSION_REPLACED: { number: 25, code: "ABORTED", kind: "collaboration.role_conflict" },
  /** A frame's sequence skips at least one number; metadata["expected"] is the expected sequence. */
  SEQUENCE_GAP: { number: 26, code: "ABORTED", kind: "collaboration.message_loss" },
  /** The position is past the end. */
  OUT_OF_RANGE: { number: 27, code: "OUT_OF_RANGE", kind: "input.invalid" },
  /** The RPC is part of the contract and not served by this process. */
  NOT_SERVED: { number: 28, code: "UNIMPLEMENTED", kind: "input.invalid" },
  /** The frame's arm is unknown to this peer or was not negotiated. */
  UNKNOWN_FRAME: { number: 29, code: "UNIMPLEMENTED", kind: "input.invalid" },
  /** An internal fault of the server; the details stay in its log. */
  INTERNAL: { number: 30, code: "INTERNAL", kind: "infrastructure.fault" },
  /** The service cannot be reached now. */
  UNAVAILABLE: { number: 31, code: "UNAVAILABLE", kind: "infrastructure.partition" },
  /** Stored data cannot be read back. */
  DATA_LOSS: { number: 32, code: "DATA_LOSS", kind: "memory.corruption" },
  /** The request has no valid credentials. */
  UNAUTHENTICATED: { number: 33, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** The instance does not hold this task, or no longer does. */
  NOT_HELD: { number: 34, code: "NOT_FOUND", kind: "collaboration.unresponsive_agent" },
  /** The instance has no free capacity now. */
  NO_CAPACITY: { number: 35, code: "RESOURCE_EXHAUSTED", kind: "collaboration.bottleneck" },
  /** The frame's epoch is below the highest seen for the run. Answered by a Failure frame; metadata["epoch"] is the highest. */
  STALE_EPOCH: { number: 36, code: "ABORTED", kind: "collaboration.role_conflict" },
  /** Attempts at the task repeatedly ended with the loss of their process. */
  POISONED: { number: 37, code: "ABORTED", kind: "infrastructure.error_budget" },
  /** The instance that held the attempt is gone. */
  INSTANCE_LOST: { number: 38, code: "UNAVAILABLE", kind: "collaboration.unresponsive_agent" },
  /** The run's timeout has passed. */
  RUN_TIMEOUT: { number: 39, code: "DEADLINE_EXCEEDED", kind: "input.timeout" },
  /** The agent is draining and accepts no new task. */
  DRAINING: { number: 40, code: "UNAVAILABLE", kind: "collaboration.bottleneck" },
  /** The instance_id belongs to another identity or role, the stream belongs to another orchestrator, or another version of the value is stored. */
  CONFLICT: { number: 41, code: "ABORTED", kind: "collaboration.role_conflict" },
  /** The page token does not belong to this list and filter. */
  INVALID_PAGE_TOKEN: { number: 42, code: "INVALID_ARGUMENT", kind: "input.invalid" },
  /** The two sides have no protocol version in common. */
  PROTOCOL_MISMATCH: { number: 43, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** The run's budget is spent. */
  BUDGET_EXHAUSTED: { number: 44, code: "RESOURCE_EXHAUSTED", kind: "input.budget" },
  /** The delegation would return to a role whose task waits for it. */
  DELEGATION_LOOP: { number: 45, code: "FAILED_PRECONDITION", kind: "collaboration.delegation_loop" },
  /** The run has reached its maximum number of events. */
  TOO_MANY_EVENTS: { number: 46, code: "RESOURCE_EXHAUSTED", kind: "input.budget" },
  /** The delegation would nest deeper than the run allows. */
  DELEGATION_TOO_DEEP: { number: 47, code: "FAILED_PRECONDITION", kind: "collaboration.delegation_loop" },
  /** The delegation was not answered within its timeout. */
  DELEGATION_TIMEOUT: { number: 48, code: "DEADLINE_EXCEEDED", kind: "input.timeout" },
  /** The task has reached its maximum number of delegations. */
  TOO_MANY_DELEGATIONS: { number: 49, code: "RESOURCE_EXHAUSTED", kind: "input.budget" },
  /** The run was claimed repeatedly and made no progress; its journal is kept unchanged. */
  QUARANTINED: { number: 50, code: "INTERNAL", kind: "infrastructure.error_budget" },
  /** The run has recovered from its maximum number of lost and failed attempts; or most attempts of the orchestrator's runs fail, and it accepts no new run for now. */
  ERROR_BUDGET_EXHAUSTED: { number: 51, code: "RESOURCE_EXHAUSTED", kind: "infrastructure.error_budget" },
  /** Other turns of the conversation were stored first on every attempt. */
  CONVERSATION_MOVED: { number: 52, code: "ABORTED", kind: "collaboration.shared_state_conflict" },
  /** The agent reached its iteration limit without an answer; metadata["partial_answer"] has what it had found. */
  ITERATION_LIMIT: { number: 53, code: "RESOURCE_EXHAUSTED", kind: "model.reasoning_degradation" },
  /** The journal of the run has reached its maximum size. */
  RUN_TOO_LARGE: { number: 54, code: "RESOURCE_EXHAUSTED", kind: "input.budget" },
  /** The run was paused, or waited for a person, for longer than it may. */
  PAUSE_EXPIRED: { number: 55, code: "DEADLINE_EXCEEDED", kind: "input.timeout" },
  /** No plan leads to the goal: steps failed after every replan, or the planner's reply is no plan. field_violations has the faults of a reply, metadata["failed_steps"] the steps. */
  PLAN_FAILED: { number: 56, code: "FAILED_PRECONDITION", kind: "planning.deadlock" },
  /** A person rejected what a rule had them asked about; metadata["rule"] and metadata["identity"] say which and who. */
  APPROVAL_REJECTED: { number: 57, code: "FAILED_PRECONDITION", kind: "input.permission" },
  /** No answer to a question came in time, and its policy is to abort; metadata["input_id"] is the question. */
  QUESTION_TIMED_OUT: { number: 58, code: "DEADLINE_EXCEEDED", kind: "input.timeout" },
  /** The result of a step is not what its plan expects; field_violations says why. */
  RESULT_REFUSED: { number: 59, code: "FAILED_PRECONDITION", kind: "model.format" },
  /** The answer of an agent is not of its output type, also after one repair; field_violations says why, metadata["answer"] has the answer. */
  OUTPUT_MISMATCH: { number: 60, code: "FAILED_PRECONDITION", kind: "model.format" },
  /** The step was stopped, because no other step needs its result any more. */
  NOT_NEEDED: { number: 61, code: "CANCELLED", kind: "input.cancelled" },
  /** The rule of a step with a decision has not decided; the message says why. */
  UNDECIDED: { number: 62, code: "FAILED_PRECONDITION", kind: "collaboration.role_conflict" },
  /** No task of the run receives the message: none has the receiver's name, or those that have it are over. */
  NO_RECEIVER: { number: 63, code: "NOT_FOUND", kind: "input.not_found" },
  /** The profile of one of the two roles does not allow the exchange of messages of this type between them. */
  MESSAGE_NOT_ALLOWED: { number: 64, code: "PERMISSION_DENIED", kind: "input.permission" },
  /** The run has reached its maximum number, or its maximum size, of messages. */
  TOO_MANY_MESSAGES: { number: 65, code: "RESOURCE_EXHAUSTED", kind: "input.budget" },
  /** The step did not end within the time that its plan gives it. */
  STEP_TIMEOUT: { number: 66, code: "DEADLINE_EXCEEDED", kind: "input.timeout" },
  /** The call has no token, and this mesh needs one. */
  TOKEN_MISSING: { number: 67, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** The token is malformed, or was signed by another mesh, or for another audience. */
  TOKEN_INVALID: { number: 68, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** The token has expired. */
  TOKEN_EXPIRED: { number: 69, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** The token was revoked. */
  TOKEN_REVOKED: { number: 70, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** The certificate of the connection has expired, or names no member of this mesh. */
  CERTIFICATE_REFUSED: { number: 71, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** A quota of the tenant or the identity is used up; metadata["quota"] names it, metadata["limit"] and metadata["used"] are its numbers, metadata["tenant"] and metadata["identity"] are whose it is. */
  QUOTA_EXCEEDED: { number: 72, code: "RESOURCE_EXHAUSTED", kind: "input.budget" },
  /** An attempt does not hold at a breakpoint: the runtime of its agent cannot, or it was dispatched before. */
  BREAKPOINT_NOT_HELD: { number: 73, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** NOT_FOUND: the tenant's learned weights have no such version. */
  UNKNOWN_LEARNED_VERSION: { number: 78, code: "NOT_FOUND", kind: "input.not_found" },
  /** FAILED_PRECONDITION: the version of the learned weights does not wait for a decision. */
  LEARNED_VERSION_DECIDED: { number: 79, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** FAILED_PRECONDITION: the orchestrator does not learn. */
  LEARNING_OFF: { number: 80, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** The agent of the call is not attached to the orchestrator that would relay it, or its connection broke during the call; metadata["begun"] is "false" if the agent has certainly not received the call. */
  INSTANCE_NOT_ATTACHED: { number: 85, code: "UNAVAILABLE", kind: "collaboration.unresponsive_agent" },
  /** The attached agent is of a release that takes no calls through an orchestrator. */
  CALLS_NOT_RELAYED: { number: 86, code: "UNIMPLEMENTED", kind: "input.invalid" },
  /** The caller sends requests to the HTTP gateway faster than it allows, or has too many streams open there. */
  TOO_MANY_REQUESTS: { number: 87, code: "RESOURCE_EXHAUSTED", kind: "infrastructure.rate_limit" },
  /** A page of another site has made the browser send the request. */
  CROSS_SITE_REQUEST: { number: 88, code: "PERMISSION_DENIED", kind: "input.permission" },
  /** The link was used before, has expired, was revoked, or never existed. */
  LINK_REFUSED: { number: 89, code: "NOT_FOUND", kind: "input.not_found" },
  /** No run of the thread has asked with this interrupt. */
  UNKNOWN_INTERRUPT: { number: 90, code: "NOT_FOUND", kind: "input.not_found" },
  /** The thread waits for answers that the input does not have; metadata["run_id"] is the run that asks. */
  INTERRUPTS_PENDING: { number: 91, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** Agents of a mesh take no tools of front ends. */
  FRONT_END_TOOLS_REFUSED: { number: 92, code: "FAILED_PRECONDITION", kind: "input.invalid" },
  /** NOT_FOUND: the tenant has no schedule of this name. */
  UNKNOWN_SCHEDULE: { number: 94, code: "NOT_FOUND", kind: "input.not_found" },
  /** ABORTED: the schedule was changed since the caller has read it. */
  SCHEDULE_CHANGED: { number: 95, code: "ABORTED", kind: "collaboration.shared_state_conflict" },
  /** The tenant has no hook of this name. */
  UNKNOWN_HOOK: { number: 96, code: "NOT_FOUND", kind: "input.not_found" },
  /** There is no such hook, or the signature of the delivery is not one of its. */
  DELIVERY_UNVERIFIED: { number: 97, code: "UNAUTHENTICATED", kind: "input.permission" },
  /** The delivery was signed too long ago, or in the future. */
  DELIVERY_STALE: { number: 98, code: "INVALID_ARGUMENT", kind: "infrastructure.clock_skew" },
  /** The id of the delivery came before with another body. */
  DELIVERY_ID_REUSED: { number: 99, code: "ALREADY_EXISTS", kind: "input.invalid" },
  /** The hook is paused. */
  HOOK_PAUSED: { number: 100, code: "UNAVAILABLE", kind: "infrastructure.partition" },
  /** ABORTED: the hook was changed since the caller has read it. */
  HOOK_CHANGED: { number: 104, code: "ABORTED", kind: "collaboration.shared_state_conflict" },
} as const;

/** A reason of the contract. */
export type Reason = keyof typeof REASONS;

/** The kinds of failures, in the order of the catalogue. */
export const KINDS = {
  "model.hallucination": { failureClass: "MODEL", severity: "MEDIUM", retry: "NEVER" },
  "model.refusal": { failureClass: "MODEL", severity: "MEDIUM", retry: "NEVER" },
  "model.format": { failureClass: "MODEL", severity: "LOW", retry: "NEVER" },
  "model.context_overflow": { failureClass: "MODEL", severity: "HIGH", retry: "NEVER" },
  "model.reasoning_degradation": { failureClass: "MODEL", severity: "MEDIUM", retry: "NEVER" },
  "model.provider": { failureClass: "MODEL", severity: "HIGH", retry: "LATER" },
  "tool.timeout": { failureClass: "TOOL", severity: "MEDIUM", retry: "LATER" },
  "tool.crash": { failureClass: "TOOL", severity: "MEDIUM", retry: "NEVER" },
  "tool.invalid_parameters": { failureClass: "TOOL", severity: "LOW", retry: "NEVER" },
  "tool.network": { failureClass: "TOOL", severity: "MEDIUM", retry: "LATER" },
  "tool.resource_exhaustion": { failureClass: "TOOL", severity: "HIGH", retry: "NEVER" },
  "tool.permission": { failureClass: "TOOL", severity: "HIGH", retry: "NEVER" },
  "planning.cycle": { failureClass: "PLANNING", severity: "HIGH", retry: "NEVER" },
  "planning.over_decomposition": { failureClass: "PLANNING", severity: "MEDIUM", retry: "NEVER" },
  "planning.under_decomposition": { failureClass: "PLANNING", severity: "MEDIUM", retry: "NEVER" },
  "planning.deadlock": { failureClass: "PLANNING", severity: "HIGH", retry: "NEVER" },
  "planning.context_loss": { failureClass: "PLANNING", severity: "MEDIUM", retry: "NEVER" },
  "planning.misread_goal": { failureClass: "PLANNING", severity: "HIGH", retry: "NEVER" },
  "memory.retrieval": { failureClass: "MEMORY", severity: "MEDIUM", retry: "LATER" },
  "memory.embedding": { failureClass: "MEMORY", severity: "MEDIUM", retry: "LATER" },
  "memory.token_budget": { failureClass: "MEMORY", severity: "MEDIUM", retry: "NEVER" },
  "memory.corruption": { failureClass: "MEMORY", severity: "HIGH", retry: "NEVER" },
  "memory.growth": { failureClass: "MEMORY", severity: "MEDIUM", retry: "NEVER" },
  "memory.staleness": { failureClass: "MEMORY", severity: "LOW", retry: "NEVER" },
  "collaboration.delegation_loop": { failureClass: "COLLABORATION", severity: "HIGH", retry: "NEVER" },
  "collaboration.bottleneck": { failureClass: "COLLABORATION", severity: "MEDIUM", retry: "ELSEWHERE" },
  "collaboration.message_loss": { failureClass: "COLLABORATION", severity: "MEDIUM", retry: "LATER" },
  "collaboration.role_conflict": { failureClass: "COLLABORATION", severity: "LOW", retry: "NEVER" },
  "collaboration.shared_state_conflict": { failureClass: "COLLABORATION", severity: "HIGH", retry: "LATER" },
  "collaboration.unresponsive_agent": { failureClass: "COLLABORATION", severity: "MEDIUM", retry: "ELSEWHERE" },
  "infrastructure.out_of_memory": { failureClass: "INFRASTRUCTURE", severity: "CRITICAL", retry: "ELSEWHERE" },
  "infrastructure.storage": { failureClass: "INFRASTRUCTURE", severity: "HIGH", retry: "LATER" },
  "infrastructure.rate_limit": { failureClass: "INFRASTRUCTURE", severity: "HIGH", retry: "LATER" },
  "infrastructure.partition": { failureClass: "INFRASTRUCTURE", severity: "HIGH", retry: "LATER" },
  "infrastructure.clock_skew": { failureClass: "INFRASTRUCTURE", severity: "LOW", retry: "NEVER" },
  "infrastructure.error_budget": { failureClass: "INFRASTRUCTURE", severity: "HIGH", retry: "NEVER" },
  "infrastructure.fault": { failureClass: "INFRASTRUCTURE", severity: "HIGH", retry: "NEVER" },
  "input.invalid": { failureClass: "INPUT", severity: "LOW", retry: "NEVER" },
  "input.not_found": { failureClass: "INPUT", severity: "LOW", retry: "NEVER" },
  "input.permission": { failureClass: "INPUT", severity: "HIGH", retry: "NEVER" },
  "input.cancelled": { failureClass: "INPUT", severity: "LOW", retry: "NEVER" },
  "input.budget": { failureClass: "INPUT", severity: "MEDIUM", retry: "NEVER" },
  "input.timeout": { failureClass: "INPUT", severity: "MEDIUM", retry: "NEVER" },
} as const;

/** The name of a kind of failure. */
export type Kind = keyof typeof KINDS;

/** The kind of an error of each code whose reason does not tell. */
export const KIND_OF_CODE: Record<Code, Kind> = {
  CANCELLED: "input.cancelled",
  UNKNOWN: "infrastructure.fault",
  INVALID_ARGUMENT: "input.invalid",
  DEADLINE_EXCEEDED: "input.timeout",
  NOT_FOUND: "input.not_found",
  ALREADY_EXISTS: "input.invalid",
  PERMISSION_DENIED: "input.permission",
  RESOURCE_EXHAUSTED: "infrastructure.rate_limit",
  FAILED_PRECONDITION: "input.invalid",
  ABORTED: "collaboration.shared_state_conflict",
  OUT_OF_RANGE: "input.invalid",
  UNIMPLEMENTED: "input.invalid",
  INTERNAL: "infrastructure.fault",
  UNAVAILABLE: "infrastructure.partition",
  DATA_LOSS: "memory.corruption",
  UNAUTHENTICATED: "input.permission",
};

/** The reason of an error of each code, if none is given. */
export const REASON_OF_CODE: Record<Code, Reason> = {
  CANCELLED: "CANCELLED",
  UNKNOWN: "UNKNOWN",
  INVALID_ARGUMENT: "INVALID_ARGUMENT",
  DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
  NOT_FOUND: "NOT_FOUND",
  ALREADY_EXISTS: "ALREADY_EXISTS",
  PERMISSION_DENIED: "PERMISSION_DENIED",
  RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
  FAILED_PRECONDITION: "FAILED_PRECONDITION",
  ABORTED: "ABORTED",
  OUT_OF_RANGE: "OUT_OF_RANGE",
  UNIMPLEMENTED: "NOT_SERVED",
  INTERNAL: "INTERNAL",
  UNAVAILABLE: "UNAVAILABLE",
  DATA_LOSS: "DATA_LOSS",
  UNAUTHENTICATED: "UNAUTHENTICATED",
};
