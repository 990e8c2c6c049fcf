"""Keeps calls from a store or an embedder that is down or frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from archon.clock import monotonic
from archon.errors import DeadlineExceeded, Unavailable
from archon.failure_kinds import RETRIEVAL

T = TypeVar("T")

LIMIT: Final = 1.5
"""Seconds that a caller waits for an answer, unless the operation is a long one."""

FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 60.0
"""Seconds without calls after a failure; doubled with each failure in a row."""


class Guard:
    """A circuit breaker that opens at the first failure: the next caller does not wait for a failed service.

    When the pause is over, one call, the probe, is let through. Only signs that the other side is down count as
    failures: Unavailable, DeadlineExceeded, and no answer in time.
    """

    def __init__(
        self,
        name: str,
        *,
        kind: str = RETRIEVAL,
        limit: float = LIMIT,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`name` and `kind` of failure are for the errors that the guard raises."""
        self._name = name
        self._kind = kind
        self.limit = limit
        """Seconds that a call may take unless it has a limit of its own."""
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether a call would be refused now."""
        return self._failures > 0 and (self._is_probing or self._clock() < self._until)

    async def call(self, operation: Callable[[], Awaitable[T]], *, limit: float | None = None) -> T:
        """Returns the operation's result. Raises Unavailable at once if the breaker is open, or after `limit` seconds,
        and the operation's errors."""
        if self.is_open:
            delay = max(1.0, self._until - self._clock())
            message = f"the {self._name} is down; it is tried again in {delay:.0f} s"
            raise Unavailable(message, retry_delay=delay, kind=self._kind)
        is_probe = self._failures > 0
        self._is_probing = is_probe
        seconds = self.limit if limit is None else limit
        try:
            async with asyncio.timeout(seconds):
                value = await operation()
        except (TimeoutError, Unavailable) as error:  # DeadlineExceeded is a TimeoutError
            self._failed()
            if isinstance(error, (Unavailable, DeadlineExceeded)):
                raise
            raise Unavailable(
                f"no answer of the {self._name} within {seconds:g} s", retry_delay=FIRST_PAUSE, kind=self._kind
            ) from None
        finally:
            if is_probe:
                self._is_probing = False
        self._failures = 0
        return value

    def _failed(self) -> None:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._until = self._clock() + pause
