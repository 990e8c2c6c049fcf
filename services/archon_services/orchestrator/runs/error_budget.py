"""The error budget of an orchestrator: while too many attempts fail, new runs are refused, so that those under way can
recover."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from archon.errors import ResourceExhausted
from archon.failure_kinds import FailureClass
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Failure

WINDOW: Final = 60
"""Seconds."""

RETRY_DELAY: Final = 5.0
COUNTED: Final = frozenset(
    {FailureClass.MODEL, FailureClass.MEMORY, FailureClass.COLLABORATION, FailureClass.INFRASTRUCTURE}
)
"""Classes of failures that say something about the system. Failures of tools and of requests concern one run."""

_ENDS: Final = frozenset({ev.Lost, ev.Retried, ev.ResultReceived})


class ErrorBudget:
    """Counts attempts that ended in the last minute, and those that failed, by class.

    It is exhausted while more than `limit` failures of one class (0: no limit) are more than half of all attempts.
    `monotonic` returns seconds.
    """

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._ended = 0
        self._failed: dict[int, int] = {}
        self._seconds: deque[tuple[int, list[int]]] = deque()
        """Per second: how many attempts ended, by the class of their failure; 0: without one."""

    def note(self, events: Sequence[ev.Event]) -> None:
        """Counts the ends of attempts among some events."""
        if not self._limit:
            return
        for event in events:
            if type(event) in _ENDS:
                failure: Failure | None = event.failure  # type: ignore[union-attr]
                self._add(failure.failure_class if failure is not None and failure.failure_class in COUNTED else 0)

    def check(self) -> None:
        """Raises ResourceExhausted (ERROR_BUDGET_EXHAUSTED) while the budget is exhausted."""
        self._forget()
        for failure_class, count in self._failed.items():
            if self._limit and count > self._limit and count * 2 > self._ended:
                name = FailureClass(failure_class).name.lower()
                raise ResourceExhausted(
                    f"{count:,} of {self._ended:,} attempts of the last minute failed ({name}): no new runs until they "
                    "recover",
                    reason="ERROR_BUDGET_EXHAUSTED",
                    retry_delay=RETRY_DELAY,
                    metadata={"class": name, "failed": str(count), "limit": str(self._limit)},
                )

    def _add(self, failure_class: int) -> None:
        second = int(self._monotonic())
        if not self._seconds or self._seconds[-1][0] != second:
            self._forget()
            self._seconds.append((second, [0] * (max(FailureClass) + 1)))
        self._seconds[-1][1][failure_class] += 1
        self._ended += 1
        if failure_class:
            self._failed[failure_class] = self._failed.get(failure_class, 0) + 1

    def _forget(self) -> None:
        oldest = int(self._monotonic()) - WINDOW
        while self._seconds and self._seconds[0][0] <= oldest:
            for failure_class, count in enumerate(self._seconds.popleft()[1]):
                self._ended -= count
                if failure_class and count:
                    self._failed[failure_class] -= count
