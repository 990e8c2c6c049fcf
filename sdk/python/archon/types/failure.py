"""Failures of runs, tasks and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeVar

from google.rpc import code_pb2

from archon.api.common.v1 import failure_pb2
from archon.errors import FieldViolation
from archon.failure_kinds import ErrorSeverity, FailureClass, RetryAdvice
from archon.types.enum_name import enum_name
from archon.wire import duration, to_seconds

E = TypeVar("E", bound=IntEnum)

_REASON: Final = "ERROR_REASON_"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure: its kind in the catalogue, such as `tool.timeout`, and a message for people.

    `code` is the name of a gRPC code, `reason` the name of a reason, such as `RUN_TIMEOUT`; both are empty if they are
    unset or unknown to this version. `retry_delay` is in seconds, None if there is no advice. `metadata` names the
    objects involved; `causes` are the failures that led to this one, outermost first, without causes of their own.
    """

    kind: str = ""
    message: str = ""
    code: str = ""
    reason: str = ""
    failure_class: FailureClass = FailureClass.UNSPECIFIED
    severity: ErrorSeverity | None = None
    retry: RetryAdvice | None = None
    retry_delay: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    field_violations: tuple[FieldViolation, ...] = ()
    causes: tuple[Failure, ...] = ()

    @property
    def proto(self) -> failure_pb2.Failure:
        """The failure as a message."""
        return failure_pb2.Failure(
            kind=self.kind,
            message=self.message,
            code=code_pb2.Code.Value(self.code) if self.code else 0,
            reason=failure_pb2.ErrorReason.Value(f"{_REASON}{self.reason or 'UNSPECIFIED'}"),
            failure_class=failure_pb2.FailureClass.ValueType(self.failure_class),
            severity=failure_pb2.Severity.ValueType(self.severity or 0),
            retry=failure_pb2.Retry.ValueType(self.retry or 0),
            retry_delay=None if self.retry_delay is None else duration(self.retry_delay),
            metadata=self.metadata,
            field_violations=[
                failure_pb2.FieldViolation(field=each.field, description=each.description)
                for each in self.field_violations
            ],
            causes=[cause.proto for cause in self.causes],
        )

    @classmethod
    def from_proto(cls, message: failure_pb2.Failure) -> Failure:
        """Returns the failure that a message has."""
        return cls(
            message.kind,
            message.message,
            enum_name(code_pb2.Code, "", message.code).upper(),
            enum_name(failure_pb2.ErrorReason, _REASON, message.reason).upper(),
            _known(FailureClass, message.failure_class) or FailureClass.UNSPECIFIED,
            _known(ErrorSeverity, message.severity),
            _known(RetryAdvice, message.retry),
            to_seconds(message.retry_delay) if message.HasField("retry_delay") else None,
            dict(message.metadata),
            tuple(FieldViolation(each.field, each.description) for each in message.field_violations),
            tuple(map(cls.from_proto, message.causes)),
        )


def _known(kind: type[E], number: int) -> E | None:
    return kind(number) if number and number in list(kind) else None
