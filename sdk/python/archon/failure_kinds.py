"""The catalogue of failures: every kind of failure, how severe it is, and whether a retry may help.

A kind is named by its class and its name, such as `tool.timeout`. An error without a kind of its own has the kind of
its reason, or else of its gRPC code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ErrorSeverity(IntEnum):
    """How severe a failure is, with the numbers of `archon.api.common.v1.Severity`."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class RetryAdvice(IntEnum):
    """Whether a retry may succeed, with the numbers of `archon.api.common.v1.Retry`."""

    NEVER = 1
    LATER = 2
    ELSEWHERE = 3


class FailureClass(IntEnum):
    """The kind of fault, with the numbers of `archon.api.common.v1.FailureClass`."""

    UNSPECIFIED = 0
    MODEL = 1
    TOOL = 2
    PLANNING = 3
    MEMORY = 4
    COLLABORATION = 5
    INFRASTRUCTURE = 6
    INPUT = 7


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One row of the catalogue."""

    name: str
    severity: ErrorSeverity
    retry: RetryAdvice

    @property
    def failure_class(self) -> FailureClass:
        """The class of failures, the part of the name before its dot."""
        return FailureClass[self.name.partition(".")[0].upper()]


_LOW, _MEDIUM, _HIGH, _CRITICAL = ErrorSeverity
_NEVER, _LATER, _ELSEWHERE = RetryAdvice

CATALOGUE: Final = {
    kind.name: kind
    for kind in (
        FailureKind("model.hallucination", _MEDIUM, _NEVER),
        FailureKind("model.refusal", _MEDIUM, _NEVER),
        FailureKind("model.format", _LOW, _NEVER),
        FailureKind("model.context_overflow", _HIGH, _NEVER),
        FailureKind("model.reasoning_degradation", _MEDIUM, _NEVER),
        FailureKind("model.provider", _HIGH, _LATER),
        FailureKind("tool.timeout", _MEDIUM, _LATER),
        FailureKind("tool.crash", _MEDIUM, _NEVER),
        FailureKind("tool.invalid_parameters", _LOW, _NEVER),
        FailureKind("tool.network", _MEDIUM, _LATER),
        FailureKind("tool.resource_exhaustion", _HIGH, _NEVER),
        FailureKind("tool.permission", _HIGH, _NEVER),
        FailureKind("planning.cycle", _HIGH, _NEVER),
        FailureKind("planning.over_decomposition", _MEDIUM, _NEVER),
        FailureKind("planning.under_decomposition", _MEDIUM, _NEVER),
        FailureKind("planning.deadlock", _HIGH, _NEVER),
        FailureKind("planning.context_loss", _MEDIUM, _NEVER),
        FailureKind("planning.misread_goal", _HIGH, _NEVER),
        FailureKind("memory.retrieval", _MEDIUM, _LATER),
        FailureKind("memory.embedding", _MEDIUM, _LATER),
        FailureKind("memory.token_budget", _MEDIUM, _NEVER),
        FailureKind("memory.corruption", _HIGH, _NEVER),
        FailureKind("memory.growth", _MEDIUM, _NEVER),
        FailureKind("memory.staleness", _LOW, _NEVER),
        FailureKind("collaboration.delegation_loop", _HIGH, _NEVER),
        FailureKind("collaboration.bottleneck", _MEDIUM, _ELSEWHERE),
        FailureKind("collaboration.message_loss", _MEDIUM, _LATER),
        FailureKind("collaboration.role_conflict", _LOW, _NEVER),
        FailureKind("collaboration.shared_state_conflict", _HIGH, _LATER),
        FailureKind("collaboration.unresponsive_agent", _MEDIUM, _ELSEWHERE),
        FailureKind("infrastructure.out_of_memory", _CRITICAL, _ELSEWHERE),
        FailureKind("infrastructure.storage", _HIGH, _LATER),
        FailureKind("infrastructure.rate_limit", _HIGH, _LATER),
        FailureKind("infrastructure.partition", _HIGH, _LATER),
        FailureKind("infrastructure.clock_skew", _LOW, _NEVER),
        FailureKind("infrastructure.error_budget", _HIGH, _NEVER),
        FailureKind("infrastructure.fault", _HIGH, _NEVER),
        FailureKind("input.invalid", _LOW, _NEVER),
        FailureKind("input.not_found", _LOW, _NEVER),
        FailureKind("input.permission", _HIGH, _NEVER),
        FailureKind("input.cancelled", _LOW, _NEVER),
        FailureKind("input.budget", _MEDIUM, _NEVER),
        FailureKind("input.timeout", _MEDIUM, _NEVER),
    )
}
"""All kinds by name, in the order of docs/failures.md, which says how each is noticed and handled."""

OUT_OF_MEMORY: Final = "infrastructure.out_of_memory"
STORAGE: Final = "infrastructure.storage"
PROVIDER: Final = "model.provider"
HALLUCINATION: Final = "model.hallucination"
REFUSAL: Final = "model.refusal"
REASONING_DEGRADATION: Final = "model.reasoning_degradation"
MODEL_FORMAT: Final = "model.format"
CONTEXT_OVERFLOW: Final = "model.context_overflow"
RETRIEVAL: Final = "memory.retrieval"
EMBEDDING: Final = "memory.embedding"
TOKEN_BUDGET: Final = "memory.token_budget"
GROWTH: Final = "memory.growth"
TOOL_TIMEOUT: Final = "tool.timeout"
TOOL_CRASH: Final = "tool.crash"
INVALID_PARAMETERS: Final = "tool.invalid_parameters"
TOOL_NETWORK: Final = "tool.network"
TOOL_RESOURCES: Final = "tool.resource_exhaustion"
TOOL_PERMISSION: Final = "tool.permission"

GIVEN_BACK: Final = "given_back"
"""The metadata key of the failure of an attempt that had begun when its instance gave it back."""

_REASONS: Final = {
    "input.invalid": (
        "INVALID_ARGUMENT",
        "MALFORMED_MESSAGE",
        "EMPTY_GOAL",
        "MESSAGE_TOO_LARGE",
        "FRAME_TOO_LARGE",
        "ALREADY_EXISTS",
        "REQUEST_ID_REUSED",
        "DELIVERY_ID_REUSED",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "INVALID_PAGE_TOKEN",
        "NOT_SERVED",
        "BREAKPOINT_NOT_HELD",
        "UNIMPLEMENTED",
        "UNKNOWN_FRAME",
        "CALLS_NOT_RELAYED",
        "RUN_EXPIRED",
        "LEARNED_VERSION_DECIDED",
        "LEARNING_OFF",
        "INTERRUPTS_PENDING",
        "FRONT_END_TOOLS_REFUSED",
        "PROTOCOL_MISMATCH",
    ),
    "input.not_found": (
        "LINK_REFUSED",
        "UNKNOWN_INTERRUPT",
        "NOT_FOUND",
        "UNKNOWN_RUN",
        "UNKNOWN_ROLE",
        "UNKNOWN_CAPABILITY",
        "NO_RECEIVER",
        "UNKNOWN_LEARNED_VERSION",
        "UNKNOWN_SCHEDULE",
        "UNKNOWN_HOOK",
    ),
    "input.permission": (
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "CERTIFICATE_REFUSED",
        "TOKEN_MISSING",
        "TOKEN_INVALID",
        "TOKEN_EXPIRED",
        "TOKEN_REVOKED",
        "APPROVAL_REJECTED",
        "MESSAGE_NOT_ALLOWED",
        "CROSS_SITE_REQUEST",
        "DELIVERY_UNVERIFIED",
    ),
    "input.cancelled": (
        "CANCELLED",
        "NOT_NEEDED",
    ),
    "input.timeout": (
        "DEADLINE_EXCEEDED",
        "RUN_TIMEOUT",
        "PAUSE_EXPIRED",
        "QUESTION_TIMED_OUT",
        "DELEGATION_TIMEOUT",
        "STEP_TIMEOUT",
    ),
    "input.budget": (
        "BUDGET_EXHAUSTED",
        "QUOTA_EXCEEDED",
        "TOO_MANY_DELEGATIONS",
        "TOO_MANY_EVENTS",
        "TOO_MANY_MESSAGES",
        "RUN_TOO_LARGE",
    ),
    "model.reasoning_degradation": ("ITERATION_LIMIT",),
    "planning.cycle": ("CYCLE",),
    "model.format": (
        "RESULT_REFUSED",
        "OUTPUT_MISMATCH",
    ),
    "planning.deadlock": ("PLAN_FAILED",),
    "memory.corruption": ("DATA_LOSS",),
    "collaboration.delegation_loop": (
        "DELEGATION_LOOP",
        "DELEGATION_TOO_DEEP",
    ),
    "collaboration.bottleneck": (
        "NO_CAPACITY",
        "DRAINING",
    ),
    "collaboration.message_loss": (
        "SEQUENCE_GAP",
        "SESSION_NOT_OPEN",
        "SESSION_ALREADY_OPEN",
    ),
    "collaboration.role_conflict": (
        "CONFLICT",
        "SESSION_REPLACED",
        "STALE_EPOCH",
        "UNDECIDED",
        "WRONG_INSTANCE",
    ),
    "collaboration.shared_state_conflict": (
        "ABORTED",
        "CONVERSATION_MOVED",
        "SCHEDULE_CHANGED",
        "HOOK_CHANGED",
    ),
    "collaboration.unresponsive_agent": (
        "INSTANCE_LOST",
        "INSTANCE_NOT_ATTACHED",
        "NOT_HELD",
        "LEASE_EXPIRED",
    ),
    "infrastructure.rate_limit": ("RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS"),
    "infrastructure.partition": ("UNAVAILABLE", "HOOK_PAUSED"),
    "infrastructure.clock_skew": ("DELIVERY_STALE",),
    "infrastructure.error_budget": (
        "ERROR_BUDGET_EXHAUSTED",
        "POISONED",
        "QUARANTINED",
    ),
    "infrastructure.fault": ("INTERNAL",),
}
_BY_REASON: Final = {reason: kind for kind, reasons in _REASONS.items() for reason in reasons}


def entry_of(kind: str, code: str, reason: str) -> FailureKind:
    """Returns the row of a kind; of the failure's reason or code if the kind is empty or unknown to this version."""
    return CATALOGUE.get(kind) or kind_of(code, reason)


def advice(entry: FailureKind, retry_delay: float | None) -> RetryAdvice:
    """Returns the advice for a failure that carries none: one that names a delay may be retried after it."""
    return RetryAdvice.LATER if retry_delay is not None else entry.retry


def kind_of(code: str, reason: str) -> FailureKind:
    """Returns the kind of a failure by its reason, or else by the name of its gRPC code."""
    return CATALOGUE[_BY_REASON.get(reason) or _BY_REASON.get(code) or "infrastructure.fault"]
