"""A circuit breaker: a tool that keeps failing is not called for a while, and then by one call at first."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from archon.errors import Unavailable
from archon.failure_kinds import TOOL_CRASH

FAILURES: Final = 5
"""Failures in a row that open the breaker."""

OPEN_SECONDS: Final = 30.0
"""How long an open breaker lets no call through."""


class BreakerState(StrEnum):
    """CLOSED: calls pass. OPEN: none does. HALF_OPEN: one call, the probe, decides."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitBreaker:
    """The breaker of one tool. Each call that `enter` lets through ends with `succeeded`, `failed` or `left`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._opened: float | None = None
        self._is_probing = False

    @property
    def state(self) -> BreakerState:
        """CLOSED, OPEN, or HALF_OPEN once the pause after the last failure has passed."""
        if self._opened is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._remaining() > 0 else BreakerState.HALF_OPEN

    def refusal(self, name: str) -> Unavailable | None:
        """Returns the error for a call that is not let through, with the delay after which to retry, or None."""
        if self._opened is None or (self._remaining() <= 0 and not self._is_probing):
            return None
        delay = max(self._remaining(), 1.0)  # while the probe is under way
        message = f"tool {name} is off for {delay:.0f} s, after {self._failures} failures in a row"
        return Unavailable(message, retry_delay=delay, kind=TOOL_CRASH, metadata={"tool": name})

    def enter(self) -> bool:
        """Notes that a call begins. Returns whether it is the probe of an open breaker."""
        if self._opened is None:
            return False
        self._is_probing = True
        return True

    def succeeded(self, *, is_probe: bool) -> None:
        """Notes that the tool answered, if only with an error about the call."""
        if self._opened is None or is_probe:
            self._failures, self._opened, self._is_probing = 0, None, False

    def failed(self, *, is_probe: bool) -> None:
        """Notes a failure of the tool. Calls that began before the breaker opened do not prolong it."""
        self._failures += 1
        if is_probe or (self._opened is None and self._failures >= FAILURES):
            self._opened = self._clock()
            self._is_probing = False

    def left(self, *, is_probe: bool) -> None:
        """Notes a call that ended without saying anything about the tool, such as a cancelled one."""
        if is_probe:
            self._is_probing = False

    def _remaining(self) -> float:
        assert self._opened is not None
        return self._opened + OPEN_SECONDS - self._clock()
