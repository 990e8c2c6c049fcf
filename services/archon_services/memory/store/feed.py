"""Those who follow scopes: each gets every publish once, in order, out of a queue with a bound."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from archon.errors import ArchonError, ResourceExhausted
from archon_services.memory.store.port import StoredItem

MAX_WATCHERS: Final = 1_000
MAX_QUEUED: Final = 256
"""Publishes that wait for one watcher; one that is slower is sent away."""

MAX_QUEUED_CHARACTERS: Final = 16 * 1024 * 1024
"""So much text may wait for one watcher, beside the publish that comes last."""

Key = tuple[str, str]
"""Tenant and scope."""


class Watcher:
    """One watcher's queue. Its end is told after what is queued; of one that is too slow, at once."""

    def __init__(self, max_queued: int) -> None:
        self._queue: deque[list[StoredItem]] = deque()
        self._max_queued = max_queued
        self._characters = 0
        self._end: ArchonError | None = None
        self._news = asyncio.Event()

    def tell(self, items: list[StoredItem]) -> None:
        """Never waits."""
        if self._end is not None:
            return
        if len(self._queue) >= self._max_queued or self._characters > MAX_QUEUED_CHARACTERS:
            self._queue.clear()
            self.end(ResourceExhausted("the watcher is too slow; watch again, from a snapshot", retry_delay=1.0))
            return
        self._queue.append(items)
        self._characters += _characters(items)
        self._news.set()

    def end(self, error: ArchonError) -> None:
        """No more from here on; the first error counts."""
        self._end = self._end or error
        self._news.set()

    async def next(self) -> list[StoredItem]:
        """Waits for the next publish; it is the watcher's own call that bounds the wait."""
        while not self._queue:
            if self._end is not None:
                raise self._end
            self._news.clear()
            await self._news.wait()
        items = self._queue.popleft()
        self._characters -= _characters(items)
        return items


class Feed:
    """All watchers of one process."""

    def __init__(self, *, max_queued: int = MAX_QUEUED) -> None:
        self._max_queued = max_queued
        self._watchers: dict[Key, set[Watcher]] = {}
        self._end: ArchonError | None = None

    def tell(self, key: Key, items: Sequence[StoredItem]) -> None:
        """What one publish brought."""
        if items:
            for watcher in self._watchers.get(key, ()):
                watcher.tell(list(items))

    def end(self, error: ArchonError) -> None:
        """Ends all watches, those that are yet to come too."""
        self._end = error
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.end(error)

    @contextmanager
    def follow(self, key: Key) -> Iterator[Watcher]:
        """A watcher that hears all that is told within the block. Raises ResourceExhausted where too many watch."""
        if sum(map(len, self._watchers.values())) >= MAX_WATCHERS:
            raise ResourceExhausted(f"{MAX_WATCHERS:,} watch this memory service", retry_delay=1.0)
        watcher = Watcher(self._max_queued)
        if self._end is not None:
            watcher.end(self._end)
        self._watchers.setdefault(key, set()).add(watcher)
        try:
            yield watcher
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]


def _characters(items: Sequence[StoredItem]) -> int:
    return sum(len(one.item.content) for one in items)
