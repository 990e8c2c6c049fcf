"""Converts the errors of providers to `archon.errors`. No message ever contains the key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from json import JSONDecodeError
from typing import Final

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
from archon.json_text import json_or
from archon_mesh.core.masking import forms_of
from archon_mesh.llm.overflow import is_overflow
from archon_mesh.llm.retry_delay import retry_delay

_BY_STATUS: dict[int, type[ArchonError]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    408: DeadlineExceeded,
    409: Aborted,
    413: MessageTooLarge,
    429: ResourceExhausted,
}
MIN_KEY: Final = 12
"""Characters of a key that is removed from messages; a shorter one, such as `none`, is found in ordinary words."""

_MAX_CHARS: Final = 300
_MAX_ENTRIES: Final = 5
_MAX_CAUSES: Final = 10
_MESSAGES: Final = ("message", "error", "detail", "msg", "title")
"""Where the bodies of errors have their text, the first one that is there."""

_LIMITED: Final = ("rate_limit", "quota", "429")
_INVALID: Final = ("invalid_request", "invalid_prompt", "context_length")
_LOOKS_LIKE_A_KEY = re.compile(r"(?i)\bsk-[\w*.-]+|\bbearer\s+\S+")


def to_archon_error(error: Exception, key: str) -> ArchonError:
    """Returns the Archon error for an exception of httpx2.

    `key`, and everything that looks like a key, is removed.
    """
    import httpx2

    if isinstance(error, ArchonError):
        return error
    if isinstance(error, httpx2.TimeoutException):
        return DeadlineExceeded(f"the model endpoint{_address(error)} did not answer in time", kind=PROVIDER)
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL)):
        words = f"the model endpoint{_address(error)} is unreachable, or closed the connection{_cause(error, key)}"
        return Unavailable(words, kind=PROVIDER)
    if isinstance(error, (JSONDecodeError, UnicodeDecodeError)):
        return Unavailable("the model endpoint sent invalid JSON", kind=PROVIDER)
    return UnknownFailure(f"the call of the model endpoint failed with {type(error).__name__}")


def _address(error: Exception) -> str:
    """Returns the address that a call went to, without possible secrets in its URL."""
    try:
        url = getattr(error, "request").url  # noqa: B009 - raises RuntimeError if there is none
        return f" {url.scheme}://{url.netloc.decode().rpartition('@')[2]}"
    except (AttributeError, RuntimeError, UnicodeError):
        return ""


def _cause(error: BaseException, key: str) -> str:
    """Returns the first cause of an error in its own words: the name is unknown, the connection refused."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < _MAX_CAUSES:
        causes.append(cause)
    words = next((text for each in reversed(causes) if (text := _own_words(each))), "")
    return f": {_without_key(words, key)[:_MAX_CHARS]}" if words else ""


def _own_words(error: BaseException) -> str:
    is_system = isinstance(error, OSError) and error.errno is not None and error.errno > 0
    return os.strerror(error.errno) if is_system else str(error).strip()  # type: ignore[attr-defined]


def stream_error(type_and_code: str, body: object, key: str) -> ArchonError:
    """Converts an error that came as an event of a stream whose HTTP status was 200."""
    kind: type[ArchonError] = Unavailable
    if any(word in type_and_code for word in _LIMITED):
        kind = ResourceExhausted
    elif any(word in type_and_code for word in _INVALID):
        kind = InvalidArgument
    message = server_message(body, key)
    failure_kind = _kind_of_failure(kind, f"{type_and_code} {message}")
    metadata = {}
    if kind is ResourceExhausted:
        metadata = {"http_status": "429", "code": type_and_code.split()[-1]}
    return kind(
        f"the model endpoint aborted its reply: {message}",
        kind=failure_kind,
        metadata=metadata,
        retry_delay=retry_delay({}, body) if kind is not InvalidArgument else None,
    )


def status_error(status: int, headers: Mapping[str, str], content: bytes, key: str) -> ArchonError:
    """Converts a response whose HTTP status is not one of success."""
    text = content.decode(errors="replace")
    body = json_or(text, text)
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    code = (inner.get("code") or inner.get("type")) if isinstance(inner, Mapping) else None
    return _of_status(status, headers, inner, code, key)


def _of_status(status: int, headers: Mapping[str, str], body: object, code: object, key: str) -> ArchonError:
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidArgument)
    # Messages about a rejected key tend to quote it, in forms that no pattern matches.
    message = "" if status in (401, 403) else server_message(body, key)
    return kind(
        f"the model endpoint answered {status}" + (f": {message}" if message else ""),
        metadata={"http_status": str(status)} | ({"code": str(code)} if code else {}),
        retry_delay=retry_delay(headers, body) if status in (429, 503, 529) else None,
        kind=_kind_of_failure(kind, f"{code} {message}"),
    )


def _kind_of_failure(error: type[ArchonError], text: str) -> str:
    """Returns the kind of a failure that the endpoint reported; empty if it is the default of the error's class."""
    if error is Unavailable or error is DeadlineExceeded:
        return PROVIDER
    return CONTEXT_OVERFLOW if error in (InvalidArgument, MessageTooLarge) and is_overflow(text) else ""


def server_message(body: object, key: str) -> str:
    """Returns the server's message, shortened and without secrets."""
    text = _without_key(_words(body), key)
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "..."


def _without_key(text: str, key: str) -> str:
    """Returns a text on one line, without the key in any form that quotations give it, and texts that look like one."""
    key = key.strip()  # a client quotes the line break of a key that was read from a file as two characters
    if len(key) >= MIN_KEY:
        for form in forms_of(key):
            text = text.replace(form, "[key]")
    return " ".join(_LOOKS_LIKE_A_KEY.sub("[key]", text).split())


def _words(body: object, depth: int = 3) -> str:
    """Returns the text of an error in the forms that servers give it: of OpenAI, of FastAPI (`detail`, with the path of
    each field), of Gemini (a list)."""
    if isinstance(body, str):
        return body
    if depth == 0:
        return ""
    if isinstance(body, list):
        return "; ".join(filter(None, (_words(entry, depth - 1) for entry in body[:_MAX_ENTRIES])))
    if not isinstance(body, Mapping):
        return ""
    if isinstance(body.get("loc"), list) and isinstance(body.get("msg"), str):
        return f"{'.'.join(map(str, body['loc']))}: {body['msg']}"
    return next(filter(None, (_words(body.get(name), depth - 1) for name in _MESSAGES)), "")
