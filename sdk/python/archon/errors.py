"""The errors of Archon: one tree for the SDK, the mesh and the services.

ArchonError
  + OperationCancelled            CANCELLED
  |   + NotNeeded
  + UnknownFailure                UNKNOWN
  + InvalidArgument               INVALID_ARGUMENT      (ValueError)
  |   + MalformedMessage
  |   + EmptyGoal
  |   + DeliveryStale
  |   + MessageTooLarge
  |       + FrameTooLarge
  + DeadlineExceeded              DEADLINE_EXCEEDED     (TimeoutError)
  |   + QuestionTimedOut
  |   + DelegationTimeout
  |   + StepTimeout
  + NotFound                      NOT_FOUND             (LookupError)
  |   + UnknownRun
  |   + UnknownRole
  |   + UnknownCapability
  |   + LeaseExpired
  |   + LinkRefused
  |   + UnknownInterrupt
  |   + UnknownLearnedVersion
  |   + UnknownSchedule
  |   + UnknownHook
  |   + NoReceiver
  + AlreadyExists                 ALREADY_EXISTS
  |   + RequestIdReused
  |   + DeliveryIdReused
  + PermissionDenied              PERMISSION_DENIED     (PermissionError)
  |   + CrossSiteRequest
  |   + MessageNotAllowed
  + ResourceExhausted             RESOURCE_EXHAUSTED
  |   + BudgetExhausted
  |   + IterationLimit
  |   + TooManyDelegations
  |   + TooManyMessages
  |   + QuotaExceeded
  |   + TooManyRequests
  + FailedPrecondition            FAILED_PRECONDITION
  |   + GraphCycle                                      (ValueError)
  |   + SessionNotOpen
  |   + SessionAlreadyOpen
  |   + WrongInstance
  |   + RunExpired
  |   + LearnedVersionDecided
  |   + LearningOff
  |   + PlanFailed
  |   + ResultRefused
  |   + Undecided
  |   + OutputMismatch
  |   + ApprovalRejected
  |   + BreakpointNotHeld
  |   + DelegationLoop
  |   + DelegationTooDeep
  |   + InterruptsPending
  |   + FrontEndToolsRefused
  + Aborted                       ABORTED
  |   + ConversationMoved
  |   + SessionReplaced
  |   + SequenceGap
  |   + ScheduleChanged
  |   + HookChanged
  + OutOfRange                    OUT_OF_RANGE          (IndexError)
  + Unimplemented                 UNIMPLEMENTED         (NotImplementedError)
  |   + UnknownFrame
  |   + CallsNotRelayed
  + Internal                      INTERNAL
  + Unavailable                   UNAVAILABLE           (ConnectionError)
  |   + InstanceNotAttached
  |   + HookPaused
  + DataLoss                      DATA_LOSS
  + Unauthenticated               UNAUTHENTICATED
      + CertificateRefused
      + TokenMissing
      + TokenInvalid
      + TokenExpired
      + TokenRevoked
      + DeliveryUnverified

One class per canonical gRPC code but OK (https://grpc.io/docs/guides/status-codes/), with narrower classes below for
causes that a caller tells apart. The module knows no transport: `archon.status` maps these classes to the wire.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from archon.failure_kinds import ErrorSeverity, FailureClass, RetryAdvice, advice, entry_of

MAX_ANSWER: Final = 16_000
"""Characters of a refused answer that an error keeps."""


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """An invalid field of a request, and why (google.rpc.BadRequest.FieldViolation)."""

    field: str
    description: str


class ArchonError(Exception):
    """The base class of every error that Archon raises on purpose.

    `message` is one clear sentence for a person; `reason` is a constant in UPPER_SNAKE_CASE for a program
    (google.rpc.ErrorInfo.reason); `metadata` names the objects involved; `retry_delay` is the seconds to wait before
    trying again, or None if there is no advice; `causes` are the errors that led to this one, outermost first.

    `kind` is the name of a kind in `archon.failure_kinds`, `severity` and `retry` follow from the kind unless they are
    given. `failure_class` is the class of the kind, or the one that a peer sent with a kind unknown to this version.
    """

    code: ClassVar[str] = "UNKNOWN"
    default_reason: ClassVar[str] = "UNKNOWN"
    default_kind: ClassVar[str] = ""
    """The kind of the class if its reason and code do not tell."""

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        field_violations: Sequence[FieldViolation] = (),
        retry_delay: float | None = None,
        kind: str = "",
        failure_class: FailureClass = FailureClass.UNSPECIFIED,
        severity: ErrorSeverity | None = None,
        retry: RetryAdvice | None = None,
        causes: Sequence[ArchonError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.field_violations = tuple(field_violations)
        self.retry_delay = retry_delay
        self.causes = tuple(causes)
        entry = entry_of(kind or self.default_kind, self.code, self.reason)
        self.kind = kind or entry.name
        self.failure_class = failure_class or entry.failure_class
        self.severity = severity or entry.severity
        self.retry = retry or advice(entry, retry_delay)

    def __str__(self) -> str:
        return self.message or self.reason


class OperationCancelled(ArchonError):
    """CANCELLED: the caller gave up."""

    code = "CANCELLED"
    default_reason = "CANCELLED"


class NotNeeded(OperationCancelled):
    """The step was stopped, because no other step needs its result any more."""

    default_reason = "NOT_NEEDED"


class UnknownFailure(ArchonError):
    """UNKNOWN: an error of another system, without details."""

    code = "UNKNOWN"
    default_reason = "UNKNOWN"


class InvalidArgument(ArchonError, ValueError):
    """INVALID_ARGUMENT: the request is invalid, whatever the state of the system."""

    code = "INVALID_ARGUMENT"
    default_reason = "INVALID_ARGUMENT"


class MalformedMessage(InvalidArgument):
    """The bytes are not a message of the contract, or a string is not UTF-8."""

    default_reason = "MALFORMED_MESSAGE"


class EmptyGoal(InvalidArgument):
    """A run was submitted without a goal."""

    default_reason = "EMPTY_GOAL"


class DeliveryStale(InvalidArgument):
    """The delivery to a hook was signed too long ago, or in the future."""

    default_reason = "DELIVERY_STALE"


class MessageTooLarge(InvalidArgument):
    """A message or part is larger than the peer takes; pass large content by URL."""

    default_reason = "MESSAGE_TOO_LARGE"


class FrameTooLarge(MessageTooLarge):
    """A frame is larger than the session's agreed maximum; only its task fails."""

    default_reason = "FRAME_TOO_LARGE"


class DeadlineExceeded(ArchonError, TimeoutError):
    """DEADLINE_EXCEEDED: the deadline passed before the operation was complete."""

    code = "DEADLINE_EXCEEDED"
    default_reason = "DEADLINE_EXCEEDED"


class QuestionTimedOut(DeadlineExceeded):
    """A question to a person was not answered in time, and its policy is to abort."""

    default_reason = "QUESTION_TIMED_OUT"


class DelegationTimeout(DeadlineExceeded):
    """A delegation was not answered within its time."""

    default_reason = "DELEGATION_TIMEOUT"


class StepTimeout(DeadlineExceeded):
    """A step of a plan did not end within its time."""

    default_reason = "STEP_TIMEOUT"


class NotFound(ArchonError, LookupError):
    """NOT_FOUND: the named object does not exist."""

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
    """The lease has expired or never existed: register again."""

    default_reason = "LEASE_EXPIRED"


class LinkRefused(NotFound):
    """The link was used before, has expired, was revoked, or never existed."""

    default_reason = "LINK_REFUSED"


class UnknownInterrupt(NotFound):
    """No run of the thread has asked with this interrupt."""

    default_reason = "UNKNOWN_INTERRUPT"


class AlreadyExists(ArchonError):
    """ALREADY_EXISTS: the object exists and differs."""

    code = "ALREADY_EXISTS"
    default_reason = "ALREADY_EXISTS"


class RequestIdReused(AlreadyExists):
    """The request id was used before with another payload."""

    default_reason = "REQUEST_ID_REUSED"


class DeliveryIdReused(AlreadyExists):
    """The id of a delivery to a hook came before with another body."""

    default_reason = "DELIVERY_ID_REUSED"


class UnknownLearnedVersion(NotFound):
    """The learned weights of the tenant have no such version."""

    default_reason = "UNKNOWN_LEARNED_VERSION"


class UnknownSchedule(NotFound):
    """The tenant has no schedule of this name."""

    default_reason = "UNKNOWN_SCHEDULE"


class UnknownHook(NotFound):
    """The tenant has no hook of this name."""

    default_reason = "UNKNOWN_HOOK"


class NoReceiver(NotFound):
    """No task of the run receives the message: none has the receiver's name, or those that have it are over."""

    default_reason = "NO_RECEIVER"


class PermissionDenied(ArchonError, PermissionError):
    """PERMISSION_DENIED: the caller is known and not allowed."""

    code = "PERMISSION_DENIED"
    default_reason = "PERMISSION_DENIED"


class CrossSiteRequest(PermissionDenied):
    """A page of another site has made the browser send the request."""

    default_reason = "CROSS_SITE_REQUEST"


class MessageNotAllowed(PermissionDenied):
    """The profile of one of the two roles does not allow messages of this type between them."""

    default_reason = "MESSAGE_NOT_ALLOWED"


class ResourceExhausted(ArchonError):
    """RESOURCE_EXHAUSTED: a limit is reached; `retry_delay` says when to try again."""

    code = "RESOURCE_EXHAUSTED"
    default_reason = "RESOURCE_EXHAUSTED"


class BudgetExhausted(ResourceExhausted):
    """Too little of the run's budget is left. Trying again does not help."""

    default_reason = "BUDGET_EXHAUSTED"


class IterationLimit(ResourceExhausted):
    """An agent reached its iteration limit without an answer.

    `partial_answer` holds the last texts of the model and the last tool results.
    """

    default_reason = "ITERATION_LIMIT"

    @property
    def partial_answer(self) -> str:
        """The agent's findings; empty if there are none."""
        return self.metadata.get("partial_answer", "")


class TooManyDelegations(ResourceExhausted):
    """The task has reached its limit of delegations."""

    default_reason = "TOO_MANY_DELEGATIONS"


class TooManyMessages(ResourceExhausted):
    """The run has reached its maximum number, or its maximum size, of messages."""

    default_reason = "TOO_MANY_MESSAGES"


class QuotaExceeded(ResourceExhausted):
    """A quota of the tenant or the identity is used up; `retry_delay` says when to try again, for a quota of the day
    after midnight in UTC. `metadata["quota"]` is its name, `metadata["limit"]` and `metadata["used"]` are its numbers,
    `metadata["tenant"]` and `metadata["identity"]` are whose it is."""

    default_reason = "QUOTA_EXCEEDED"


class TooManyRequests(ResourceExhausted):
    """The caller sends requests to the HTTP gateway faster than it allows, or has too many streams open there."""

    default_reason = "TOO_MANY_REQUESTS"


class FailedPrecondition(ArchonError):
    """FAILED_PRECONDITION: the system is not in the required state; change the state first."""

    code = "FAILED_PRECONDITION"
    default_reason = "FAILED_PRECONDITION"


class GraphCycle(FailedPrecondition, ValueError):
    """The edge would close a cycle; `metadata["cycle"]` is the path, `a -> b -> a`.

    In a process that has imported networkx it is a networkx.NetworkXUnfeasible too.
    """

    default_reason = "CYCLE"

    def __new__(cls, *_: object, **__: object) -> Self:
        # `except` looks at the real base classes, and importing networkx here would cost every process 20 MB.
        unfeasible = getattr(sys.modules.get("networkx"), "NetworkXUnfeasible", None)
        if unfeasible is not None and not issubclass(GraphCycle, unfeasible):
            GraphCycle.__bases__ = (FailedPrecondition, unfeasible, ValueError)
        return super().__new__(cls)


class SessionNotOpen(FailedPrecondition):
    """A frame came before Open (or Ready)."""

    default_reason = "SESSION_NOT_OPEN"


class SessionAlreadyOpen(FailedPrecondition):
    """A stream carried a second Open."""

    default_reason = "SESSION_ALREADY_OPEN"


class WrongInstance(FailedPrecondition):
    """Open names another instance: the address has been reused."""

    default_reason = "WRONG_INSTANCE"


class RunExpired(FailedPrecondition):
    """The run's events were deleted at the end of their retention."""

    default_reason = "RUN_EXPIRED"


class LearnedVersionDecided(FailedPrecondition):
    """The version of the learned weights does not wait for a decision: a person decided it, or went back to another
    version."""

    default_reason = "LEARNED_VERSION_DECIDED"


class LearningOff(FailedPrecondition):
    """The orchestrator does not learn: its setting is off."""

    default_reason = "LEARNING_OFF"


class PlanFailed(FailedPrecondition):
    """No plan leads to the goal: steps failed after every replan, or the planner's reply is no plan. `field_violations`
    has the faults of a reply, `metadata["failed_steps"]` the steps."""

    default_reason = "PLAN_FAILED"


class ResultRefused(FailedPrecondition):
    """The result of a step does not match its plan; `field_violations` says why."""

    default_reason = "RESULT_REFUSED"


class Undecided(FailedPrecondition):
    """The rule of a step with a decision has not decided, and no role decides in its place."""

    default_reason = "UNDECIDED"


class OutputMismatch(FailedPrecondition):
    """The answer is not of the type that was declared as its output, also after one repair. `field_violations` says
    why, and `text` has the answer."""

    default_reason = "OUTPUT_MISMATCH"

    @classmethod
    def of(cls, violations: Sequence[FieldViolation], text: str, whose: str = "") -> Self:
        """Returns the error for an answer. `whose` names the agent or role, or is empty."""
        reasons = "; ".join(f"{each.field}: {each.description}" for each in violations)
        message = f"{whose + ': ' if whose else ''}the answer does not match its output type: {reasons}"
        return cls(message, field_violations=violations, metadata={"answer": text[:MAX_ANSWER]})

    @property
    def text(self) -> str:
        """The answer as the model wrote it, at most 16,000 characters; empty if it is not known."""
        return self.metadata.get("answer", "")


class ApprovalRejected(FailedPrecondition):
    """A person rejected an approval that a rule or a tool asked for. `metadata["rule"]` and `metadata["identity"]` name
    the rule and the person."""

    default_reason = "APPROVAL_REJECTED"


class BreakpointNotHeld(FailedPrecondition):
    """An attempt does not hold at a breakpoint: the runtime of its agent cannot, or it was dispatched before the
    breakpoint was set. `metadata["instance_id"]` and `metadata["role"]` name the instance."""

    default_reason = "BREAKPOINT_NOT_HELD"


class DelegationLoop(FailedPrecondition):
    """The delegation would reach a role that waits for it; `metadata["chain"]` is the path, `a -> b -> a`."""

    default_reason = "DELEGATION_LOOP"


class DelegationTooDeep(FailedPrecondition):
    """The delegation would nest deeper than the run allows."""

    default_reason = "DELEGATION_TOO_DEEP"


class InterruptsPending(FailedPrecondition):
    """The thread waits for answers that the input does not have; `metadata["run_id"]` is the run that asks."""

    default_reason = "INTERRUPTS_PENDING"


class FrontEndToolsRefused(FailedPrecondition):
    """Tools of a front end are too large, or the agent has tools of these names itself."""

    default_reason = "FRONT_END_TOOLS_REFUSED"


class Aborted(ArchonError):
    """ABORTED: a concurrent operation won; read again and retry."""

    code = "ABORTED"
    default_reason = "ABORTED"


class ConversationMoved(Aborted):
    """Concurrent turns of the same conversation won repeatedly."""

    default_reason = "CONVERSATION_MOVED"


class SessionReplaced(Aborted):
    """A newer stream of the same orchestrator has replaced this one."""

    default_reason = "SESSION_REPLACED"


class SequenceGap(Aborted):
    """A frame is missing before this one; the sender resends from `metadata["expected"]`."""

    default_reason = "SEQUENCE_GAP"


class ScheduleChanged(Aborted):
    """The schedule was changed since the caller has read it."""

    default_reason = "SCHEDULE_CHANGED"


class HookChanged(Aborted):
    """The hook was changed since the caller has read it."""

    default_reason = "HOOK_CHANGED"


class OutOfRange(ArchonError, IndexError):
    """OUT_OF_RANGE: the position is past the end."""

    code = "OUT_OF_RANGE"
    default_reason = "OUT_OF_RANGE"


class Unimplemented(ArchonError, NotImplementedError):
    """UNIMPLEMENTED: the method is in the contract but not served here."""

    code = "UNIMPLEMENTED"
    default_reason = "NOT_SERVED"


class UnknownFrame(Unimplemented):
    """A kind of frame that the peer does not know or did not agree to."""

    default_reason = "UNKNOWN_FRAME"


class CallsNotRelayed(Unimplemented):
    """The attached agent is of a release that takes no calls through an orchestrator."""

    default_reason = "CALLS_NOT_RELAYED"


class Internal(ArchonError):
    """INTERNAL: a bug in Archon. Details are in the log of the process only."""

    code = "INTERNAL"
    default_reason = "INTERNAL"


class Unavailable(ArchonError, ConnectionError):
    """UNAVAILABLE: the service is not reachable now; trying again may help."""

    code = "UNAVAILABLE"
    default_reason = "UNAVAILABLE"


class InstanceNotAttached(Unavailable):
    """The agent of a call is not attached to the orchestrator that would relay it, or its connection broke during the
    call. `metadata["begun"]` is "false" if the agent has certainly not received the call."""

    default_reason = "INSTANCE_NOT_ATTACHED"


class HookPaused(Unavailable):
    """The hook is paused: its sender tries the delivery again later."""

    default_reason = "HOOK_PAUSED"


class DataLoss(ArchonError):
    """DATA_LOSS: stored data cannot be read."""

    code = "DATA_LOSS"
    default_reason = "DATA_LOSS"


class Unauthenticated(ArchonError):
    """UNAUTHENTICATED: the call has no valid credentials."""

    code = "UNAUTHENTICATED"
    default_reason = "UNAUTHENTICATED"


class CertificateRefused(Unauthenticated):
    """The certificate of the connection has expired, or names no member of this mesh."""

    default_reason = "CERTIFICATE_REFUSED"


class TokenMissing(Unauthenticated):
    """The call has no token, and this mesh needs one."""

    default_reason = "TOKEN_MISSING"


class TokenInvalid(Unauthenticated):
    """The token is malformed, or was signed by another mesh, or for another audience."""

    default_reason = "TOKEN_INVALID"


class TokenExpired(Unauthenticated):
    """The end of validity of the token has passed."""

    default_reason = "TOKEN_EXPIRED"


class TokenRevoked(Unauthenticated):
    """The token was revoked before it has expired."""

    default_reason = "TOKEN_REVOKED"


class DeliveryUnverified(Unauthenticated):
    """There is no such hook, or the signature of the delivery does not match."""

    default_reason = "DELIVERY_UNVERIFIED"
