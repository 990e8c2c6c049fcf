"""Calls per minute: a window that slides, and refuses further calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from archon.errors import ResourceExhausted

MINUTE: Final = 60.0


class CallWindow:
    """Lets at most `rate` calls start within any minute."""

    def __init__(self, rate: int, clock: Callable[[], float]) -> None:
        self.rate = rate
        self._clock = clock
        self._starts: deque[float] = deque(maxlen=rate)

    @property
    def delay(self) -> float:
        """Seconds until the next call may start."""
        if len(self._starts) < self.rate:
            return 0.0
        return max(0.0, self._starts[0] + MINUTE - self._clock())

    def take(self) -> bool:
        """Counts a call, if it may start now."""
        if self.delay > 0:
            return False
        self._starts.append(self._clock())
        return True

    def refusal(self, name: str) -> ResourceExhausted | None:
        """Returns the error for a call of a tool that may not start now, with its delay, or None."""
        if (delay := self.delay) <= 0:
            return None
        message = f"tool {name} may be called {self.rate} times per minute: the next call in {delay:.0f} s"
        return ResourceExhausted(message, retry_delay=delay, metadata={"tool": name})
