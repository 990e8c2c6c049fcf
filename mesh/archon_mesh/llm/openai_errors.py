"""Converts exceptions of the openai package to errors of `archon.errors`. No message ever contains the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from math import isfinite
from typing import TYPE_CHECKING

from archon.errors import (
    Aborted,
    ArchonError,
    DeadlineExceeded,
    InvalidArgument,
    MessageTooLarge,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import CONTEXT_OVERFLOW, PROVIDER

if TYPE_CHECKING:
    from openai import APIError, APIStatusError

_BY_STATUS: dict[int, type[ArchonError]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    408: DeadlineExceeded,
    409: Aborted,
    413: MessageTooLarge,
    429: ResourceExhausted,
}
_MAX_CHARS = 300
_LOOKS_LIKE_A_KEY = re.compile(r"(?i)\bsk-[\w*.-]+|\bbearer\s+\S+")


def to_archon_error(error: Exception, key: str) -> ArchonError:
    """Returns the corresponding Archon error, with `key` and everything that looks like a key removed."""
    import openai

    if isinstance(error, ArchonError):
        return error
    if isinstance(error, openai.APIStatusError):
        return _from_status(error, key)
    if isinstance(error, openai.APITimeoutError):
        return DeadlineExceeded("the model endpoint did not answer in time", kind=PROVIDER)
    if isinstance(error, openai.APIConnectionError):
        return Unavailable("the model endpoint is unreachable, or closed the connection", kind=PROVIDER)
    if isinstance(error, openai.APIError):
        return _from_stream(error, key)
    if isinstance(error, JSONDecodeError):
        return Unavailable("the model endpoint sent invalid JSON", kind=PROVIDER)
    return UnknownFailure(f"the call of the model endpoint failed with {type(error).__name__}")


def _from_status(error: APIStatusError, key: str) -> ArchonError:
    status = error.status_code
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidArgument)
    # Messages about a rejected key tend to quote it, in forms that no pattern matches.
    message = "" if status in (401, 403) else _server_message(error.body, key)
    return kind(
        f"the model endpoint answered {status}" + (f": {message}" if message else ""),
        metadata={"http_status": str(status)} | ({"code": str(error.code)} if error.code else {}),
        retry_delay=_retry_delay(error.response.headers) if status in (429, 503) else None,
        kind=_kind_of_failure(kind, f"{error.code} {message}"),
    )


def _kind_of_failure(error: type[ArchonError], text: str) -> str:
    """Returns the kind of a failure that the endpoint reported; empty if it is that of the error's class."""
    if error is Unavailable or error is DeadlineExceeded:
        return PROVIDER
    overflow = "context_length" in text or "context window" in text or "maximum context" in text
    return CONTEXT_OVERFLOW if error in (InvalidArgument, MessageTooLarge) and overflow else ""


def _from_stream(error: APIError, key: str) -> ArchonError:
    """Converts an error that came as an event of a stream whose HTTP status was 200."""
    type_and_code = f"{error.type} {error.code}"
    kind: type[ArchonError] = Unavailable
    if "rate_limit" in type_and_code or "quota" in type_and_code or "429" in type_and_code:
        kind = ResourceExhausted
    elif "invalid_request" in type_and_code:
        kind = InvalidArgument
    message = _server_message(error.body, key)
    failure_kind = _kind_of_failure(kind, f"{type_and_code} {message}")
    metadata = {"http_status": "429", "code": str(error.code)} if kind is ResourceExhausted else {}
    return kind(f"the model endpoint aborted its reply: {message}", kind=failure_kind, metadata=metadata)


def _server_message(body: object, key: str) -> str:
    """Returns the server's message, shortened and without secrets."""
    if isinstance(body, Mapping):
        body = body.get("message") or body.get("error") or ""
    text = body if isinstance(body, str) else ""
    if key:
        text = text.replace(key, "[key]")
    text = " ".join(_LOOKS_LIKE_A_KEY.sub("[key]", text).split())
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "..."


def _retry_delay(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds of a Retry-After header, which is a number of seconds or a date; None if there is none."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
        return max(0.0, seconds) if isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
