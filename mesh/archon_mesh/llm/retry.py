"""When a call of a model is made again: after an error of its provider that may pass, with exponential backoff and full
jitter.

Source: "Exponential Backoff And Jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from archon.errors import ArchonError, ResourceExhausted, Unavailable

RETRIES: Final = 3
"""How often a call is made again by default."""

WITHIN: Final = 60.0
"""Seconds after the first try in which another one may begin."""

BASE: Final = 0.5
MAX_PAUSE: Final = 8.0
"""Seconds: the longest pause before the second try, and before any try that the provider asked for no pause."""


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later: the provider is unreachable, has an internal error or too much load, or
    its stream broke off. An exhausted quota of the account does not pass."""
    if isinstance(error, Unavailable):
        return True
    rate_limited = isinstance(error, ResourceExhausted) and error.metadata.get("http_status") == "429"
    return rate_limited and isinstance(error, ArchonError) and error.metadata.get("code") != "insufficient_quota"


def pause_before(retry: int, error: ArchonError, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """Seconds to wait before a retry, counted from 1: at least the provider's delay (Retry-After)."""
    longest = min(MAX_PAUSE, BASE * 2 ** (retry - 1))
    return (error.retry_delay or 0.0) + uniform(0.0, longest)
