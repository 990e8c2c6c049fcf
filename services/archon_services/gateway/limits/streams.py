"""Open streams: how many an identity has, and all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from archon.errors import TooManyRequests

MAX_STREAMS: Final = 2_000
"""Streams of all identities that one HTTP gateway has open."""


class Streams:
    """Counts open streams. `limit` is the number that one identity may have."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[Hashable] = Counter()

    @property
    def number(self) -> int:
        """All open streams."""
        return self._open.total()

    @contextmanager
    def opened(self, key: Hashable) -> Iterator[None]:
        """Counts a stream for the duration of the block. Raises TooManyRequests if there are too many."""
        if self._open[key] >= self._limit:
            raise TooManyRequests(f"more than {self._limit} open streams of one identity", retry_delay=5.0)
        if self.number >= MAX_STREAMS:
            raise TooManyRequests(f"more than {MAX_STREAMS:,} open streams", retry_delay=5.0)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
