"""One tree of errors for every floor of Archon.

The tree mirrors the canonical codes of gRPC (https://grpc.io/docs/guides/status-codes/), one class per code
but OK, with narrower classes below them where a caller wants to tell causes apart. It knows no transport:
`archon.status` is the one table between these classes and the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that is wrong, and why (google.rpc.BadRequest.FieldViolation)."""

    field: str
    description: str


class ArchonError(Exception):
    """The root. Every error that Archon raises on purpose is one of these.

    `message` is one clear sentence for a person; `reason` a constant in UPPER_SNAKE_CASE for a program
    (google.rpc.ErrorInfo.reason); `metadata` names what it was about; `retry_delay` is seconds to wait
    before trying again, None where trying again is not advised.
    """

    code: ClassVar[str] = "UNKNOWN"
    default_reason: ClassVar[str] = "UNKNOWN"

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        field_violations: Sequence[FieldViolation] = (),
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.field_violations = tuple(field_violations)
        self.retry_delay = retry_delay

    def __str__(self) -> str:
        return self.message or self.reason


class OperationCancelled(ArchonError):
    """CANCELLED: the caller gave up."""

    code = "CANCELLED"
    default_reason = "CANCELLED"


class UnknownFailure(ArchonError):
    """UNKNOWN: an error of another system that says no more."""

    code = "UNKNOWN"
    default_reason = "UNKNOWN"


class InvalidArgument(ArchonError, ValueError):
    """INVALID_ARGUMENT: the request is wrong whatever the state of the system."""

    code = "INVALID_ARGUMENT"
    default_reason = "INVALID_ARGUMENT"


class MalformedMessage(InvalidArgument):
    """Bytes that are no message of the contract, or a string that is not UTF-8."""

    default_reason = "MALFORMED_MESSAGE"


class EmptyGoal(InvalidArgument):
    """A run was submitted with nothing to do."""

    default_reason = "EMPTY_GOAL"


class MessageTooLarge(InvalidArgument):
    """One message or part is larger than the peer takes; pass large content by URL."""

    default_reason = "MESSAGE_TOO_LARGE"


class FrameTooLarge(MessageTooLarge):
    """One frame is larger than the session's agreed maximum; only its task is hurt."""

    default_reason = "FRAME_TOO_LARGE"


class DeadlineExceeded(ArchonError, TimeoutError):
    """DEADLINE_EXCEEDED: the time given was over first."""

    code = "DEADLINE_EXCEEDED"
    default_reason = "DEADLINE_EXCEEDED"


class DelegationTimeout(DeadlineExceeded):
    """A delegation was not answered within its time."""

    default_reason = "DELEGATION_TIMEOUT"


class NotFound(ArchonError, LookupError):
    """NOT_FOUND: what was named does not exist."""

    code = "NOT_FOUND"
    default_reason = "NOT_FOUND"


class UnknownRun(NotFound):
    """No run has this id."""

    default_reason = "UNKNOWN_RUN"


class UnknownRole(NotFound):
    """No instance and no edge names this role."""

    default_reason = "UNKNOWN_ROLE"


class UnknownCapability(NotFound):
    """No instance offers this capability."""

    default_reason = "UNKNOWN_CAPABILITY"


class LeaseExpired(NotFound):
    """The lease ran out or never was: register again."""

    default_reason = "LEASE_EXPIRED"


class AlreadyExists(ArchonError):
    """ALREADY_EXISTS: it is there already, and differs."""

    code = "ALREADY_EXISTS"
    default_reason = "ALREADY_EXISTS"


class RequestIdReused(AlreadyExists):
    """The same request id came before with another payload."""

    default_reason = "REQUEST_ID_REUSED"


class PermissionDenied(ArchonError, PermissionError):
    """PERMISSION_DENIED: known, and not allowed."""

    code = "PERMISSION_DENIED"
    default_reason = "PERMISSION_DENIED"


class ResourceExhausted(ArchonError):
    """RESOURCE_EXHAUSTED: a bound is reached; `retry_delay` says when to come again."""

    code = "RESOURCE_EXHAUSTED"
    default_reason = "RESOURCE_EXHAUSTED"


class BudgetExhausted(ResourceExhausted):
    """The run's budget has not so much left. Trying again doesn't help."""

    default_reason = "BUDGET_EXHAUSTED"


class TooManyDelegations(ResourceExhausted):
    """The task has made as many delegations as one may."""

    default_reason = "TOO_MANY_DELEGATIONS"


class FailedPrecondition(ArchonError):
    """FAILED_PRECONDITION: not in this state; mend the state first."""

    code = "FAILED_PRECONDITION"
    default_reason = "FAILED_PRECONDITION"


class GraphCycle(FailedPrecondition, ValueError):
    """The edge would close a cycle; `metadata["cycle"]` is the path, `a -> b -> a`."""

    default_reason = "CYCLE"


class SessionNotOpen(FailedPrecondition):
    """A frame came before Open (or Ready)."""

    default_reason = "SESSION_NOT_OPEN"


class SessionAlreadyOpen(FailedPrecondition):
    """A second Open on one stream."""

    default_reason = "SESSION_ALREADY_OPEN"


class WrongInstance(FailedPrecondition):
    """Open names another instance: this address was used again."""

    default_reason = "WRONG_INSTANCE"


class RunExpired(FailedPrecondition):
    """The run's events are gone after retention."""

    default_reason = "RUN_EXPIRED"


class DelegationLoop(FailedPrecondition):
    """The delegation would come round to a role that waits for it; `metadata["chain"]` is the way, `a -> b -> a`."""

    default_reason = "DELEGATION_LOOP"


class DelegationTooDeep(FailedPrecondition):
    """The delegation would nest deeper than the run allows."""

    default_reason = "DELEGATION_TOO_DEEP"


class Aborted(ArchonError):
    """ABORTED: somebody else was faster; read again and retry."""

    code = "ABORTED"
    default_reason = "ABORTED"


class ConversationMoved(Aborted):
    """Other turns of the conversation came first, again and again."""

    default_reason = "CONVERSATION_MOVED"


class SessionReplaced(Aborted):
    """A newer stream of the same orchestrator took this one's place."""

    default_reason = "SESSION_REPLACED"


class SequenceGap(Aborted):
    """A frame's sequence skips one; the sender sends again from `metadata["expected"]`."""

    default_reason = "SEQUENCE_GAP"


class OutOfRange(ArchonError, IndexError):
    """OUT_OF_RANGE: past the end."""

    code = "OUT_OF_RANGE"
    default_reason = "OUT_OF_RANGE"


class Unimplemented(ArchonError, NotImplementedError):
    """UNIMPLEMENTED: in the contract, not served here (yet)."""

    code = "UNIMPLEMENTED"
    default_reason = "NOT_SERVED"


class UnknownFrame(Unimplemented):
    """An arm of the frame that this peer does not know or did not agree to."""

    default_reason = "UNKNOWN_FRAME"


class Internal(ArchonError):
    """INTERNAL: a fault of ours. What happened stays in the log of the process."""

    code = "INTERNAL"
    default_reason = "INTERNAL"


class Unavailable(ArchonError, ConnectionError):
    """UNAVAILABLE: not reachable now; trying again may help."""

    code = "UNAVAILABLE"
    default_reason = "UNAVAILABLE"


class DataLoss(ArchonError):
    """DATA_LOSS: what was stored cannot be read back."""

    code = "DATA_LOSS"
    default_reason = "DATA_LOSS"


class Unauthenticated(ArchonError):
    """UNAUTHENTICATED: no valid credentials."""

    code = "UNAUTHENTICATED"
    default_reason = "UNAUTHENTICATED"
