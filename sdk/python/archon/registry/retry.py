"""Which errors are transient, and how long to wait before trying again."""

from __future__ import annotations

import random
from typing import Final

from archon import errors

_TRANSIENT: Final = (
    errors.Unavailable,
    errors.DeadlineExceeded,
    errors.ResourceExhausted,
    errors.Aborted,
    errors.Internal,
    errors.UnknownFailure,
    errors.OperationCancelled,
    errors.LeaseExpired,
    errors.TokenExpired,
    errors.CertificateRefused,
)


def is_transient(error: errors.ArchonError) -> bool:
    """Whether trying again may help."""
    return isinstance(error, _TRANSIENT)


def backoff(attempt: int, error: errors.ArchonError | None = None, *, longest: float = 2.0) -> float:
    """Seconds to wait after the given attempt (from 0): exponential with jitter, about as long as the error asks for,
    at most `longest`."""
    asked = min(longest, error.retry_delay or 0.0) if error is not None else 0.0
    return max(asked, min(longest, 0.1 * 2.0 ** min(attempt, 10))) * random.uniform(0.5, 1.0)
