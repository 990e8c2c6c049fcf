"""Requests in time: a bucket of tokens for each identity, which fills at a rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from archon.errors import TooManyRequests

BURST_SECONDS: Final = 4.0
"""A full bucket has the requests of so many seconds."""

MAX_BUCKETS: Final = 10_000
"""Identities whose buckets are kept; the one that was used longest ago starts again with a full one."""


class Rates:
    """Admits `rate` requests a second for each key, on the average. `now` returns monotonic seconds."""

    def __init__(self, rate: float, *, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._now = rate, now
        self._size = max(1.0, rate * BURST_SECONDS)
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def admit(self, key: Hashable) -> None:
        """Takes one request. Raises TooManyRequests, with the delay after which one is admitted."""
        now = self._now()
        left, at = self._buckets.pop(key, (self._size, now))
        left = min(self._size, left + (now - at) * self._rate)
        admitted = left >= 1.0
        self._buckets[key] = (left - 1.0 if admitted else left, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if not admitted:
            raise TooManyRequests(
                f"more than {self._rate:g} requests a second of one identity", retry_delay=(1.0 - left) / self._rate
            )
