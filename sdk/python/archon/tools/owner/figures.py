"""How the calls of a shared tool have ended, as its owner advertises it."""

from __future__ import annotations

from collections import deque
from typing import Final

from archon.registry import ToolShare

RECENT: Final = 100
"""Calls whose durations are remembered."""

RATE_STEP: Final = 0.05
LATENCY_STEP: Final = 0.25
LEAST_LATENCY_STEP: Final = 0.01
"""A difference in the success rate, a part of the mean latency, and a difference in it in seconds, from which on the
figures are advertised anew."""


class ToolFigures:
    """Counts the calls of one tool that other agents have made."""

    def __init__(self) -> None:
        self.calls = 0
        self.succeeded = 0
        self._seconds: deque[float] = deque(maxlen=RECENT)

    def count(self, seconds: float, *, ok: bool) -> None:
        """Counts a call that took `seconds`."""
        self.calls += 1
        self.succeeded += ok
        self._seconds.append(seconds)

    def share(self, max_calls_per_minute: int) -> ToolShare:
        """Returns the figures with the terms of the tool."""
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 0.0
        rate = self.succeeded / self.calls if self.calls else 0.0
        return ToolShare(max_calls_per_minute, self.calls, round(rate, 4), round(mean, 6))


def differs_notably(advertised: ToolShare | None, current: ToolShare | None) -> bool:
    """Whether the figures have changed so much that callers would choose differently."""
    if advertised is None or current is None:
        return advertised is not current
    if advertised.max_calls_per_minute != current.max_calls_per_minute:
        return True
    if current.calls < 1 or advertised.calls == current.calls:
        return False
    if current.calls >= 4 * max(1, advertised.calls) or not advertised.calls:
        return True
    if abs(advertised.success_rate - current.success_rate) >= RATE_STEP:
        return True
    step = abs(advertised.mean_latency - current.mean_latency)
    return step >= LEAST_LATENCY_STEP and step >= LATENCY_STEP * advertised.mean_latency
