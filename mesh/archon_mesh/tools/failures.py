"""The meaning of a tool's exception: code, reason and kind of the failure, and whether a retry may succeed."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import ArchonError
from archon.failure_kinds import (
    CATALOGUE,
    INVALID_PARAMETERS,
    TOOL_CRASH,
    TOOL_NETWORK,
    TOOL_PERMISSION,
    TOOL_RESOURCES,
    TOOL_TIMEOUT,
    FailureClass,
    RetryAdvice,
)
from archon_mesh.core.shorten import shortened
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus

MAX_MESSAGE: Final = 4 * 1024
"""Characters of an error message of a tool."""

_NAME: Final = re.compile(r"[A-Z][A-Z_]*")
_RATE_LIMIT: Final = "infrastructure.rate_limit"
_NETWORK: Final = (ConnectionError, socket.gaierror, TimeoutError)
_EXHAUSTED: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

_CODES: Final = {
    TOOL_NETWORK: "UNAVAILABLE",
    TOOL_RESOURCES: "RESOURCE_EXHAUSTED",
    _RATE_LIMIT: "RESOURCE_EXHAUSTED",
    TOOL_PERMISSION: "PERMISSION_DENIED",
    TOOL_TIMEOUT: "DEADLINE_EXCEEDED",
}
_INNOCENT: Final = {INVALID_PARAMETERS, TOOL_PERMISSION}


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """A failure by its names in `archon.errors` and `archon.failure_kinds`; `retry_delay` is in seconds."""

    code: str
    reason: str
    kind: str
    is_transient: bool = False
    retry_delay: float | None = None

    @property
    def is_outage(self) -> bool:
        """Whether the tool is at fault, and not the call: only such failures open the circuit breaker."""
        entry = CATALOGUE.get(self.kind)
        return self.kind not in _INNOCENT and (entry is None or entry.failure_class is not FailureClass.INPUT)


def failure_of(error: BaseException) -> ToolFailure:
    """Returns the meaning of an exception, also one of a library: by its type, or by its HTTP status."""
    if isinstance(error, ArchonError):
        may_pass = error.retry is not RetryAdvice.NEVER
        return ToolFailure(error.code, error.reason, error.kind, may_pass, error.retry_delay)
    return failure_of_kind(_kind_of(error))


def failure_of_kind(kind: str) -> ToolFailure:
    """Returns the failure of a kind of the catalogue."""
    code = _CODES.get(kind, "UNKNOWN")
    return ToolFailure(code, code, kind, CATALOGUE[kind].retry is not RetryAdvice.NEVER)


def failure_metadata(failure: ToolFailure) -> dict[str, str]:
    """Returns the metadata that each failed result has."""
    return {"code": failure.code, "reason": failure.reason, "kind": failure.kind}


def has_failure_metadata(metadata: Mapping[str, Any]) -> bool:
    """Tells whether metadata, which a tool may have set, names a failure of the catalogue."""
    names = (metadata.get("code"), metadata.get("reason"))
    kind = metadata.get("kind")
    is_known = isinstance(kind, str) and kind in CATALOGUE
    return is_known and all(isinstance(name, str) and _NAME.fullmatch(name) for name in names)


def reason_of(metadata: Mapping[str, Any]) -> str:
    """Returns the reason of a failed call, or its kind if it has none; nothing that a tool wrote freely."""
    if not has_failure_metadata(metadata):
        return ""
    return str(metadata["kind"] if metadata["reason"] == "UNKNOWN" else metadata["reason"])


def failed(error: BaseException, status: ToolResultStatus = ToolResultStatus.ERROR) -> ToolOutcome:
    """Returns the outcome of a call that raised an exception."""
    message = message_of(error)
    return ToolOutcome(ToolResult(None, status, message, failure_metadata(failure_of(error))), error)


def message_of(error: BaseException) -> str:
    """Returns the message of an exception as a result shows it: at most MAX_MESSAGE characters, without a traceback."""
    message = str(error) if isinstance(error, ArchonError) else f"{type(error).__name__}: {error}"
    return shortened(message, MAX_MESSAGE)


def _kind_of(error: BaseException) -> str:
    status = _http_status(error)
    if status is not None and status >= 400:
        if status in (401, 403):
            return TOOL_PERMISSION
        if status == 429:
            return _RATE_LIMIT
        return TOOL_NETWORK if status >= 500 else TOOL_CRASH
    if isinstance(error, _NETWORK):
        return TOOL_NETWORK
    if isinstance(error, MemoryError) or getattr(error, "errno", None) in _EXHAUSTED:
        return TOOL_RESOURCES
    if isinstance(error, PermissionError):
        return TOOL_PERMISSION
    return TOOL_CRASH


def _http_status(error: BaseException) -> int | None:
    """Returns the status that the clients of HTTP put on their exceptions: httpx and requests, aiohttp, urllib."""
    if isinstance(error, SystemExit):
        return None  # its code is not a status
    response: Any = getattr(error, "response", None)
    for holder, name in ((response, "status_code"), (error, "status"), (error, "code")):
        status = getattr(holder, name, None)
        if type(status) is int and 100 <= status < 600:
            return status
    return None
