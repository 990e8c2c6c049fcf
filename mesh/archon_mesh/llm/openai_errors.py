"""What the openai package raises, as errors of Archon's one tree. No message ever shows the key."""

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
_SHOWN = 300
_LOOKS_LIKE_A_KEY = re.compile(r"(?i)\bsk-[\w*.-]+|\bbearer\s+\S+")


def to_archon_error(error: Exception, key: str) -> ArchonError:
    """The error of our tree that says the same, with `key` (and all that looks like one) taken out."""
    import openai

    if isinstance(error, ArchonError):
        return error
    if isinstance(error, openai.APIStatusError):
        return _from_status(error, key)
    if isinstance(error, openai.APITimeoutError):
        return DeadlineExceeded("The model endpoint did not answer in time.")
    if isinstance(error, openai.APIConnectionError):
        return Unavailable("The model endpoint cannot be reached, or broke off the connection.")
    if isinstance(error, openai.APIError):
        return _from_stream(error, key)
    if isinstance(error, JSONDecodeError):
        return Unavailable("The model endpoint sent broken JSON.")
    return UnknownFailure(f"The call of the model endpoint failed with {type(error).__name__}.")


def _from_status(error: APIStatusError, key: str) -> ArchonError:
    status = error.status_code
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidArgument)
    # What is said to a refused key tends to quote it, in forms that no pattern knows.
    said = "" if status in (401, 403) else _said(error.body, key)
    return kind(
        f"The model endpoint answered {status}" + (f": {said}" if said else "."),
        metadata={"http_status": str(status)},
        retry_delay=_retry_delay(error.response.headers) if status in (429, 503) else None,
    )


def _from_stream(error: APIError, key: str) -> ArchonError:
    """An error that came as an event of a stream whose status had been 200 already."""
    names = f"{error.type} {error.code}"
    kind: type[ArchonError] = Unavailable
    if "rate_limit" in names or "quota" in names or "429" in names:
        kind = ResourceExhausted
    elif "invalid_request" in names:
        kind = InvalidArgument
    return kind(f"The model endpoint broke off its reply: {_said(error.body, key)}")


def _said(body: object, key: str) -> str:
    """The server's own words, short and without secrets."""
    if isinstance(body, Mapping):
        body = body.get("message") or body.get("error") or ""
    text = body if isinstance(body, str) else ""
    if key:
        text = text.replace(key, "[key]")
    text = " ".join(_LOOKS_LIKE_A_KEY.sub("[key]", text).split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _retry_delay(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by Retry-After, which is a number of seconds or a date; None where it says nothing."""
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
