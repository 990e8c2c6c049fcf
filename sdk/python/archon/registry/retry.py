"""Which failures pass by themselves, and how long to wait for it."""

from __future__ import annotations

import random
from typing import Final

from archon import errors

_PASSING: Final = (
    errors.Unavailable,
    errors.DeadlineExceeded,
    errors.ResourceExhausted,
    errors.Aborted,
    errors.Internal,
    errors.UnknownFailure,
    errors.OperationCancelled,
    errors.LeaseExpired,
)


def passes(error: errors.ArchonError) -> bool:
    """Whether trying again may help."""
    return isinstance(error, _PASSING)


def pause(attempt: int, error: errors.ArchonError | None = None, *, longest: float = 2.0) -> float:
    """Seconds to wait before the attempt after this one (from 0): doubling, jittered, never less than the error
    says."""
    asked = min(longest, error.retry_delay or 0.0) if error is not None else 0.0
    return max(asked, min(longest, 0.1 * 2.0 ** min(attempt, 10))) * random.uniform(0.5, 1.0)
