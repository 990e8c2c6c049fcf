"""What stores over a database have in common: publishes go on without their caller, watchers hear what is committed."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

from archon.errors import ResourceExhausted, Unavailable
from archon_services.memory.store.feed import Feed
from archon_services.memory.store.port import Publish, Published, StoredItem

T = TypeVar("T")

TIMEOUT: Final = 10.0
"""Seconds that a caller waits for the store."""

MAX_PUBLISHES: Final = 256
"""Publishes under way at once; at up to 4 MiB each, this bounds what they hold."""


def system_clock() -> float:
    """Seconds since the Unix epoch, in whole microseconds."""
    return round(time.time(), 6)


class FeedingStore(ABC):
    """The part of a MemoryStore that watchers rely on. `_commit` and `_snapshot` return in the order in which the store
    did them, each directly to its caller: what is between them is told exactly once."""

    def __init__(self, clock: Callable[[], float], feed: Feed | None) -> None:
        self._clock = clock
        self._feed = feed or Feed()
        self._publishes: set[asyncio.Task[list[Published]]] = set()

    @abstractmethod
    async def _commit(self, publish: Publish, now: float) -> tuple[list[Published], list[StoredItem]]:
        """The answers, and the items that are new, once they are durable."""

    @abstractmethod
    async def _snapshot(self, tenant: str, scope: str) -> list[StoredItem]:
        """What stands, in order among the commits."""

    async def publish(self, publish: Publish) -> list[Published]:
        """See MemoryStore."""
        if len(self._publishes) >= MAX_PUBLISHES:
            raise ResourceExhausted("too much is being published", retry_delay=0.5)
        # A task of its own: watchers hear of what is committed, also where the caller has gone meanwhile.
        task = asyncio.create_task(self._publish(publish), name="memory: publish")
        self._publishes.add(task)
        task.add_done_callback(self._publishes.discard)
        return await within(asyncio.shield(task))

    async def _publish(self, publish: Publish) -> list[Published]:
        answers, fresh = await self._commit(publish, self._clock())
        self._feed.tell((publish.tenant, publish.scope), fresh)
        return answers

    async def watch(self, tenant: str, scope: str) -> AsyncGenerator[list[StoredItem], None]:
        """See MemoryStore."""
        # From the snapshot's place in the order of commits on, the feed tells all: nothing is between these two lines.
        stored = await within(self._snapshot(tenant, scope))
        with self._feed.follow((tenant, scope)) as watcher:
            now = self._clock()
            yield [one for one in stored if not one.item.is_expired(now)]
            while True:
                yield await watcher.next()

    def end_watches(self) -> None:
        """See MemoryStore."""
        self._feed.end(Unavailable("this memory service is stopping", retry_delay=0.1))

    async def _settled(self) -> None:
        """Waits for publishes under way, some seconds at most."""
        if self._publishes:
            await asyncio.wait(self._publishes, timeout=TIMEOUT)


async def within(work: Awaitable[T]) -> T:
    """Raises Unavailable where it takes too long."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return await work
    except TimeoutError:
        raise Unavailable("the memory store takes too long; what was asked may yet be done", retry_delay=1.0) from None
