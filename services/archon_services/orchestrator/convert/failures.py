"""Failures and their reasons."""

from __future__ import annotations

from typing import Literal, Protocol

from archon.api.common.v1 import failure_pb2
from archon.errors import ArchonError, FieldViolation
from archon.failure_kinds import ErrorSeverity, FailureClass, RetryAdvice
from archon.status import error_class, from_failure, to_failure
from archon_mesh.engine.types import Failure


def failure_to_proto(failure: Failure) -> failure_pb2.Failure:
    """Converts a failure of the engine to the contract's; every field is kept."""
    return to_failure(failure_as_error(failure))


def failure_from_proto(failure: failure_pb2.Failure) -> Failure:
    """Converts a failure of the contract to the engine's; fields that are not set get the values of its kind."""
    return failure_from_error(from_failure(failure))


def failure_as_error(failure: Failure) -> ArchonError:
    """Converts a failure to an error of Archon's tree."""
    return error_class(failure.code, failure.reason)(
        failure.message,
        reason=failure.reason,
        metadata=dict(failure.metadata),
        field_violations=[FieldViolation(field, description) for field, description in failure.violations],
        retry_delay=failure.retry_delay,
        kind=failure.kind,
        failure_class=FailureClass(failure.failure_class),
        severity=ErrorSeverity(failure.severity),
        retry=RetryAdvice(failure.retry),
        causes=[failure_as_error(cause) for cause in failure.causes],
    )


def failure_from_error(error: ArchonError) -> Failure:
    """Converts an error of Archon's tree to a failure."""
    return Failure(
        error.code,
        error.reason,
        error.message,
        tuple(sorted(error.metadata.items())),
        error.retry_delay,
        error.kind,
        int(error.failure_class),
        int(error.severity),
        int(error.retry),
        tuple((violation.field, violation.description) for violation in error.field_violations),
        tuple(failure_from_error(cause) for cause in error.causes),
    )


class MayFail(Protocol):
    """A message with an optional field `failure`."""

    @property
    def failure(self) -> failure_pb2.Failure: ...

    def HasField(self, field_name: Literal["failure"], /) -> bool: ...


def optional_failure(message: MayFail) -> Failure | None:
    """Reads the failure of a message, None if it has none."""
    return failure_from_proto(message.failure) if message.HasField("failure") else None


def reason_to_proto(reason: str) -> failure_pb2.ErrorReason.ValueType:
    """Converts a reason. Raises ValueError if the contract has none of that name."""
    return failure_pb2.ErrorReason.Value("ERROR_REASON_" + reason)


def reason_from_proto(reason: failure_pb2.ErrorReason.ValueType) -> str:
    """Converts a reason."""
    return failure_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")
