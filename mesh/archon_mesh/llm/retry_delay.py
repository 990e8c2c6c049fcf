"""How long a provider asks its callers to wait, in the forms that providers say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

LONGEST: Final = 86_400.0
"""Seconds. A longer time is no pause, but a date in another unit."""

_LIMITS: Final = ("", "-requests", "-tokens", "-input-tokens", "-output-tokens")
_PREFIXES: Final = ("x-ratelimit", "ratelimit", "anthropic-ratelimit")

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_WORDS = re.compile(rf"(?i)(?:try again|retry|retry after|wait)(?: in| after| for)? ((?:{_PART.pattern})+)")
_DEPTH: Final = 5


def retry_delay(headers: Mapping[str, str], body: object) -> float | None:
    """Returns the seconds after which a provider takes a call again; None if it does not say.

    Read are `retry-after-ms`, `retry-after` (RFC 9110, 10.2.3), the reset of each exhausted limit
    (`x-ratelimit-reset-tokens: 6m0s`, a date, or seconds), `RetryInfo` in the body (google.rpc), and "try again in
    20s".
    """
    for value in (_number(headers.get("retry-after-ms", ""), 0.001), _seconds(headers.get("retry-after", ""))):
        if value is not None:
            return value
    resets = [seconds for seconds in _resets(headers) if seconds is not None]
    return max(resets) if resets else _in_body(body, _DEPTH)


def _resets(headers: Mapping[str, str]) -> Iterator[float | None]:
    for prefix in _PREFIXES:
        for limit in _LIMITS:
            names = ((f"{prefix}-{word}{limit}", f"{prefix}{limit}-{word}") for word in ("remaining", "reset"))
            remaining, reset = (next((headers[name] for name in pair if name in headers), "") for pair in names)
            if reset and _number(remaining) == 0.0:
                yield _seconds(reset)


def _in_body(body: object, depth: int) -> float | None:
    if isinstance(body, str):
        found = _WORDS.search(body)
        return _duration(found[1]) if found else None
    if depth == 0 or not isinstance(body, (Mapping, list)):
        return None
    if isinstance(body, Mapping) and isinstance(delay := body.get("retryDelay"), str):
        return _duration(delay)
    inner = body.values() if isinstance(body, Mapping) else body
    return next((delay for each in inner if (delay := _in_body(each, depth - 1)) is not None), None)


def _seconds(value: str) -> float | None:
    """Returns the seconds of a number, of a duration such as 6m0s, or until a date."""
    number = _number(value)
    if number is not None:
        return _until(number) if number > LONGEST else number
    if _DURATION.fullmatch(value.strip()):
        return _duration(value)
    try:
        date = datetime.fromisoformat(value) if value[:4].isdigit() else parsedate_to_datetime(value)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _until(number: float) -> float | None:
    """Returns the seconds until a time in seconds or milliseconds since 1970; None if it is neither."""
    seconds = (number / 1000 if number > 1e11 else number) - datetime.now(UTC).timestamp()
    return max(0.0, seconds) if abs(seconds) <= LONGEST else None


def _duration(value: str) -> float | None:
    seconds = sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(value))
    return seconds if seconds <= LONGEST else None


def _number(value: str, unit: float = 1.0) -> float | None:
    try:
        number = float(value) * unit
        return max(0.0, number) if isfinite(number) else None
    except ValueError:
        return None
