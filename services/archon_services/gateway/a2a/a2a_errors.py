"""Errors of the mesh as errors of A2A.

A2A has codes of its own for tasks and content. Errors that it has no code for keep their gRPC code and HTTP status:
their classes are added to the SDK's table of errors.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import grpc.aio
from a2a.server.context import ServerCallContext
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    A2A_ERROR_REASONS,
    A2AError,
    ErrorMapping,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    RequestIdReused,
    ResourceExhausted,
    RunExpired,
    Unauthenticated,
    Unavailable,
    UnknownRun,
)
from archon.status import abort, as_error

_log = logging.getLogger(__name__)

GRPC_CONTEXT: Final = "grpc_context"
"""The key under which the SDK keeps the context of a gRPC call."""


class CallerRefused(A2AError):
    """The caller presents no valid token."""


class CallerNotAllowed(A2AError):
    """The caller may not do this."""


class MeshBusy(A2AError):
    """A limit of the mesh is reached."""


class MeshUnavailable(A2AError):
    """The mesh does not answer now."""


class MeshTooSlow(A2AError):
    """The mesh has not answered in time."""


_CLASSES: Final[tuple[tuple[type[ArchonError], type[A2AError], ErrorMapping | None], ...]] = (
    (UnknownRun, TaskNotFoundError, None),
    (RunExpired, TaskNotFoundError, None),
    (InvalidArgument, InvalidParamsError, None),
    (RequestIdReused, InvalidParamsError, None),
    (NotFound, InvalidParamsError, None),
    (FailedPrecondition, UnsupportedOperationError, None),
    (Unauthenticated, CallerRefused, ErrorMapping(401, "UNAUTHENTICATED", "UNAUTHENTICATED")),
    (PermissionDenied, CallerNotAllowed, ErrorMapping(403, "PERMISSION_DENIED", "PERMISSION_DENIED")),
    (ResourceExhausted, MeshBusy, ErrorMapping(429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED")),
    (DeadlineExceeded, MeshTooSlow, ErrorMapping(504, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")),
    (Unavailable, MeshUnavailable, ErrorMapping(503, "UNAVAILABLE", "UNAVAILABLE")),
)

for _, _added, _mapping in _CLASSES:
    if _mapping is not None:
        A2A_ERROR_MAPPING[_added] = _mapping
        A2A_ERROR_REASONS[_added] = _mapping.reason


async def refuse(raised: Exception, call: ServerCallContext) -> A2AError:
    """Returns the error of A2A for an exception, with the reason of Archon in its data. A gRPC call for which A2A has
    no code is aborted with the error as it is: that raises grpc.aio.AbortError."""
    if isinstance(raised, (A2AError, grpc.aio.AbortError)):
        if isinstance(raised, A2AError):
            return raised
        raise raised
    error = as_error(raised)
    found = next((each for each in _CLASSES if isinstance(error, each[0])), None)
    if (grpc_call := call.state.get(GRPC_CONTEXT)) is not None and (found is None or found[2] is not None):
        await abort(grpc_call, error)
    data: dict[str, Any] = {"archonReason": error.reason, **error.metadata}
    if error.retry_delay is not None:
        data["retryDelay"] = f"{error.retry_delay:g}s"
    for violation in error.field_violations:
        data.setdefault("errors", []).append({"field": violation.field, "message": violation.description})
    if found is None:
        return MeshUnavailable(str(error), data)
    return found[1](str(error), data)
