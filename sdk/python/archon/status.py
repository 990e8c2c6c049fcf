"""Conversion of errors: to and from gRPC status with google.rpc details, and the flat `Failure` of frames and events.

Details follow https://google.aip.dev/193: one ErrorInfo in the domain `archon.dev`, BadRequest for invalid fields,
RetryInfo if waiting helps. They stay below 4 KB: larger trailers fail at random.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from enum import IntEnum
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from archon import errors
from archon.api.common.v1 import failure_pb2
from archon.failure_kinds import OUT_OF_MEMORY, ErrorSeverity, FailureClass, RetryAdvice, kind_of
from archon.wire import duration, set_seconds, to_seconds

DOMAIN: Final = "archon.dev"
DETAILS_KEY: Final = "grpc-status-details-bin"
MAX_DETAILS_BYTES: Final = 4096
REASON_KEY: Final = "archon.dev/reason"
"""The metadata key of a reason that is not in the contract."""

KIND_KEY: Final = "archon.dev/kind"
"""The metadata key of a kind that differs from the reason's, in an RPC's ErrorInfo."""

MAX_CAUSES: Final = 16
"""Causes of a failure; further ones are left out."""

_TOO_LARGE: Final = re.compile(r"(larger than max|exceeds maximum size)\b")
"""The texts of gRPC's libraries about a message above the limit of a channel or server: they send no details."""

_log = logging.getLogger(__name__)

_BY_CODE: Final[dict[str, type[errors.ArchonError]]] = {
    "CANCELLED": errors.OperationCancelled,
    "UNKNOWN": errors.UnknownFailure,
    "INVALID_ARGUMENT": errors.InvalidArgument,
    "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    "NOT_FOUND": errors.NotFound,
    "ALREADY_EXISTS": errors.AlreadyExists,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "RESOURCE_EXHAUSTED": errors.ResourceExhausted,
    "FAILED_PRECONDITION": errors.FailedPrecondition,
    "ABORTED": errors.Aborted,
    "OUT_OF_RANGE": errors.OutOfRange,
    "UNIMPLEMENTED": errors.Unimplemented,
    "INTERNAL": errors.Internal,
    "UNAVAILABLE": errors.Unavailable,
    "DATA_LOSS": errors.DataLoss,
    "UNAUTHENTICATED": errors.Unauthenticated,
}


def _classes(root: type[errors.ArchonError]) -> list[type[errors.ArchonError]]:
    classes = [root]
    for child in root.__subclasses__():
        classes += _classes(child)
    return classes


_BY_REASON: Final = {
    (cls.code, cls.default_reason): cls for cls in _classes(errors.ArchonError) if cls.__module__ == errors.__name__
}
_CODES: Final[dict[int, str]] = {code.value[0]: code.name for code in grpc.StatusCode}
_REASONS: Final = dict(failure_pb2.ErrorReason.items())
_REASON_NAMES: Final[dict[int, str]] = {number: name.removeprefix("ERROR_REASON_") for name, number in _REASONS.items()}


def grpc_code(error: errors.ArchonError) -> grpc.StatusCode:
    """The gRPC code of an error."""
    return grpc.StatusCode[error.code]


def error_class(code: str, reason: str) -> type[errors.ArchonError]:
    """The narrowest class for the name of a code and a reason."""
    return _BY_REASON.get((code, reason)) or _BY_CODE.get(code, errors.UnknownFailure)


def as_error(raised: BaseException, kind: str = "") -> errors.ArchonError:
    """Converts any exception to an ArchonError. An unexpected one becomes Internal of this kind: its text is only
    logged, under an incident id that the caller receives."""
    if isinstance(raised, errors.ArchonError):
        return raised
    if isinstance(raised, grpc.aio.AioRpcError):
        return from_rpc_error(raised)
    if isinstance(raised, (TimeoutError, asyncio.TimeoutError)):
        return errors.DeadlineExceeded("the deadline passed")
    if isinstance(raised, asyncio.CancelledError):
        return errors.OperationCancelled("the call was cancelled")
    if isinstance(raised, DecodeError):
        return errors.MalformedMessage("the bytes are not a message of the contract, or a string is not UTF-8")
    if isinstance(raised, MemoryError):
        return errors.ResourceExhausted("the process has no more memory", kind=OUT_OF_MEMORY)
    incident = uuid.uuid4().hex[:12]
    _log.error("internal error, incident %s", incident, exc_info=raised)
    return errors.Internal(
        f"internal error; see incident {incident} in the log of the process",
        metadata={"incident": incident},
        kind=kind,
    )


def _cut(text: str, limit: int) -> str:
    raw = text.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= limit else raw[: limit - 3].decode("utf-8", "ignore") + "..."


def to_status(error: errors.ArchonError) -> status_pb2.Status:
    """google.rpc.Status, at most MAX_DETAILS_BYTES: long texts are cut, details that do not fit are dropped."""
    status = status_pb2.Status(code=grpc_code(error).value[0], message=_cut(str(error), 1024))

    def add(detail: object) -> None:
        packed = any_pb2.Any()
        packed.Pack(detail)  # type: ignore[arg-type]
        if status.ByteSize() + packed.ByteSize() + 8 <= MAX_DETAILS_BYTES:
            status.details.append(packed)

    metadata = {key[:63]: _cut(value, 256) for key, value in list(error.metadata.items())[:6]}
    if error.kind != kind_of(error.code, error.reason).name:
        metadata[KIND_KEY] = error.kind[:63]
    add(error_details_pb2.ErrorInfo(reason=error.reason[:63], domain=DOMAIN, metadata=metadata))
    if error.retry_delay is not None:
        add(error_details_pb2.RetryInfo(retry_delay=duration(error.retry_delay)))
    if error.field_violations:
        bad = error_details_pb2.BadRequest()
        for violation in error.field_violations[:5]:
            bad.field_violations.add(field=_cut(violation.field, 64), description=_cut(violation.description, 128))
        add(bad)
    return status


def from_status(status: status_pb2.Status) -> errors.ArchonError:
    """The inverse of `to_status`: an error of the same class, with the same reason and details."""
    reason, metadata, retry_delay = "", {}, None
    violations: list[errors.FieldViolation] = []
    for packed in status.details:
        info, retry, bad = (
            error_details_pb2.ErrorInfo(),
            error_details_pb2.RetryInfo(),
            error_details_pb2.BadRequest(),
        )
        if packed.Unpack(info) and info.domain == DOMAIN:
            reason, metadata = info.reason, dict(info.metadata)
        elif packed.Unpack(retry):
            retry_delay = to_seconds(retry.retry_delay)
        elif packed.Unpack(bad):
            violations += [errors.FieldViolation(v.field, v.description) for v in bad.field_violations]
    kind = metadata.pop(KIND_KEY, "")
    return error_class(_CODES.get(status.code, "UNKNOWN"), reason)(
        status.message,
        reason=reason,
        metadata=metadata,
        kind=kind,
        field_violations=violations,
        retry_delay=retry_delay,
    )


_NOT_CONNECTED: Final = "failed to connect to all addresses"
_OF_TLS: Final = (
    ("CERTIFICATE_VERIFY_FAILED", "; its certificate is of another authority or member, or has expired"),
    ("WRONG_VERSION_NUMBER", "; it speaks no TLS: is the address right, and was the mesh started with TLS?"),
    (
        "Socket closed",
        "; it may speak TLS alone (ARCHON_TLS names the folder of a certificate), or have refused a certificate that "
        "has expired or is of another authority (`archon certs show`)",
    ),
)
"""Hints beside the texts of gRPC about connections that fail for the sake of TLS."""


def from_rpc_error(raised: grpc.aio.AioRpcError) -> errors.ArchonError:
    """The error that the server raised, or the class of the code if the server is not part of Archon, or gRPC itself
    refused the message."""
    for key, value in raised.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return from_status(status_pb2.Status.FromString(value))
            except DecodeError:
                break
    text = raised.details() or raised.code().name
    if raised.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE.search(text):
        return errors.MessageTooLarge(text)
    if raised.code() is grpc.StatusCode.UNAVAILABLE and _NOT_CONNECTED in text:
        text += next((hint for sign, hint in _OF_TLS if sign in text), "")
    return error_class(raised.code().name, "")(text)


async def abort(context: grpc.aio.ServicerContext, error: errors.ArchonError) -> None:  # type: ignore[type-arg]
    """Ends the call with an error and its details. Never returns."""
    status = to_status(error)
    await context.abort(grpc_code(error), status.message, ((DETAILS_KEY, status.SerializeToString()),))


def to_failure(error: errors.ArchonError) -> failure_pb2.Failure:
    """The flat form for frames and events. A reason that is not in the contract goes into metadata. Causes are flat:
    the causes of a cause follow it."""
    failure = _flat(error)
    failure.causes.extend(_flat(cause) for cause in _all_causes(error))
    return failure


def _flat(error: errors.ArchonError) -> failure_pb2.Failure:
    failure = failure_pb2.Failure(
        code=grpc_code(error).value[0],
        message=_cut(str(error), 1024),
        failure_class=failure_pb2.FailureClass.ValueType(error.failure_class),
        retry=failure_pb2.Retry.ValueType(error.retry),
        severity=failure_pb2.Severity.ValueType(error.severity),
        kind=error.kind,
        metadata=error.metadata,
        field_violations=[
            failure_pb2.FieldViolation(field=v.field, description=v.description) for v in error.field_violations
        ],
    )
    name = "ERROR_REASON_" + error.reason
    if name in _REASONS:
        failure.reason = _REASONS[name]
    else:
        failure.metadata[REASON_KEY] = error.reason
    if error.retry_delay is not None:
        set_seconds(failure.retry_delay, error.retry_delay)
    return failure


def _all_causes(error: errors.ArchonError) -> list[errors.ArchonError]:
    """The causes of an error, each followed by its own, MAX_CAUSES at most."""
    causes: list[errors.ArchonError] = []
    waiting = list(error.causes)
    while waiting and len(causes) < MAX_CAUSES:
        cause = waiting.pop(0)
        causes.append(cause)
        waiting = [*cause.causes, *waiting]
    return causes


def from_failure(failure: failure_pb2.Failure) -> errors.ArchonError:
    """The inverse of `to_failure`. An enum value that this version does not know reads as unset."""
    metadata = dict(failure.metadata)
    reason = metadata.pop(REASON_KEY, "")
    if not reason and failure.reason:
        reason = _REASON_NAMES.get(failure.reason, "")
    return error_class(_CODES.get(failure.code, "UNKNOWN"), reason)(
        failure.message,
        reason=reason,
        metadata=metadata,
        field_violations=[errors.FieldViolation(v.field, v.description) for v in failure.field_violations],
        retry_delay=to_seconds(failure.retry_delay) if failure.HasField("retry_delay") else None,
        kind=failure.kind,
        failure_class=known(FailureClass, failure.failure_class) or FailureClass.UNSPECIFIED,
        severity=known(ErrorSeverity, failure.severity),
        retry=known(RetryAdvice, failure.retry),
        causes=[from_failure(cause) for cause in failure.causes],
    )


E = TypeVar("E", bound=IntEnum)


def known(kind: type[E], number: int) -> E | None:
    """The member of an enum with this number; None for 0 and for a number that this version does not know."""
    return kind(number) if number and number in list(kind) else None
