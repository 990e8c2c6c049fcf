"""The record of a tool's calls: how many, how many failed, how long they took, and whether it is slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from archon_mesh.tools.breaker import BreakerState

RECENT: Final = 100
"""Calls whose durations are remembered."""

SLOW_SECONDS: Final = 60.0
"""How long a tool that timed out is marked as slow."""


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """The health of one tool. Latencies are in milliseconds, of the last calls."""

    calls: int = 0
    failures: int = 0
    timeouts: int = 0
    """Of the failures."""

    cached: int = 0
    """Further calls, answered from the cache."""

    mean_latency_ms: float = 0.0
    p95_latency_ms: float = 0.0
    slow: bool = False
    breaker: BreakerState = BreakerState.CLOSED


class HealthRecord:
    """Counts the calls of one tool."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls = self._failures = self._timeouts = 0
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._slow_until = 0.0
        self.cached = 0

    @property
    def is_slow(self) -> bool:
        """Whether the tool timed out lately."""
        return self._clock() < self._slow_until

    def mark_slow(self) -> None:
        """Marks the tool as slow for a while."""
        self._slow_until = self._clock() + SLOW_SECONDS

    def count(self, seconds: float, *, ok: bool, timed_out: bool) -> None:
        """Counts a call that took `seconds`."""
        self._calls += 1
        self._failures += not ok
        self._timeouts += timed_out
        self._seconds.append(seconds)
        if ok:
            self._slow_until = 0.0

    def snapshot(self, breaker: BreakerState) -> ToolHealth:
        """Returns the health now."""
        durations = sorted(self._seconds)
        mean = sum(durations) / len(durations) if durations else 0.0
        p95 = durations[min(len(durations) - 1, len(durations) * 95 // 100)] if durations else 0.0
        return ToolHealth(
            self._calls,
            self._failures,
            self._timeouts,
            self.cached,
            round(mean * 1000, 3),
            round(p95 * 1000, 3),
            self.is_slow,
            breaker,
        )
