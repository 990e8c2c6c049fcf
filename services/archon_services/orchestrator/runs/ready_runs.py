"""The runs that wait for a turn of the scheduler: tenants take turns, so that one with thousands of runs does not keep
the first run of another one waiting."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

SHARE: Final = 32
"""Runs of one tenant in a turn while several tenants have runs: about 10 ms."""

LATELY: Final = 1.0
"""Seconds within which turns had runs of another tenant, so that its next run is expected."""


def equal_weight(tenant: str) -> float:
    """Returns the same weight for each tenant."""
    return 1.0


class TenantRun(Protocol):
    """A run, as its tenant's turn sees it."""

    tenant: str


R = TypeVar("R", bound=TenantRun)


class ReadyRuns(Generic[R]):
    """Runs that are ready, by tenant, each in the order in which it became ready.

    `weight` returns the weight of a tenant, above 0: of several tenants with waiting runs, one with the weight 2 has
    twice as many in a turn as one with the weight 1."""

    def __init__(self, weight: Callable[[str], float] = equal_weight) -> None:
        self._weight = weight
        self._queues: dict[str, deque[R]] = {}
        self._count = 0
        self._last = ""
        self._several = -math.inf
        """When a turn last had another tenant than the turn before."""

    def __len__(self) -> int:
        return self._count

    def add(self, run: R) -> None:
        """Adds a run behind the others of its tenant."""
        queue = self._queues.get(run.tenant)
        if queue is None:
            queue = self._queues[run.tenant] = deque()
        queue.append(run)
        self._count += 1

    def clear(self) -> None:
        """Removes all runs."""
        self._queues.clear()
        self._count = 0

    def take(self, most: int, now: float) -> list[R]:
        """Removes and returns the runs of the next turn, at most `most`; `now` is in monotonic seconds. While several
        tenants have runs, or had some lately, each has at most SHARE times its weight in a turn, and those that were
        served are behind the others."""
        if not self._count:
            return []
        first = next(iter(self._queues))
        if len(self._queues) > 1 or self._last not in ("", first):
            self._several = now
        self._last = first
        is_shared = now - self._several < LATELY
        taken: list[R] = []
        for tenant in list(self._queues):
            queue = self._queues.pop(tenant)
            share = max(1, round(SHARE * self._weight(tenant))) if is_shared else most
            number = min(share, most - len(taken))
            if len(queue) <= number:
                taken += queue
            else:
                taken += [queue.popleft() for _ in range(number)]
                self._queues[tenant] = queue
            if len(taken) == most:
                break
        self._count -= len(taken)
        return taken
