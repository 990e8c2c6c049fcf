"""Requests in time: a bucket of tokens for each key, which fills at a rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from archon.errors import TooManyRequests

BURST_SECONDS: Final = 4.0
"""A full bucket has the requests of so many seconds, unless it is given another number."""

MAX_BUCKETS: Final = 10_000
"""Keys whose buckets are kept; the one that was used longest ago starts again with a full one."""


class Rates:
    """Admits `rate` requests a second for each key, on the average. `now` returns monotonic seconds, `subject` says in
    errors whose requests they are, in `per` seconds; a full bucket has the requests of `burst` seconds."""

    def __init__(
        self,
        rate: float,
        *,
        now: Callable[[], float] = time.monotonic,
        subject: str = "requests a second of one identity",
        per: float = 1.0,
        burst: float = BURST_SECONDS,
    ) -> None:
        self._rate, self._now, self._subject, self._per, self._burst = rate, now, subject, per, burst
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def admit(self, key: Hashable, rate: float | None = None) -> None:
        """Takes one request, at a `rate` of its own if there is one. Raises TooManyRequests, with the delay after which
        one is admitted."""
        now, rate = self._now(), self._rate if rate is None else rate
        size = max(1.0, rate * self._burst)
        left, at = self._buckets.pop(key, (size, now))
        left = min(size, left + (now - at) * rate)
        admitted = left >= 1.0
        self._buckets[key] = (left - 1.0 if admitted else left, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if not admitted:
            raise TooManyRequests(f"more than {rate * self._per:g} {self._subject}", retry_delay=(1.0 - left) / rate)
