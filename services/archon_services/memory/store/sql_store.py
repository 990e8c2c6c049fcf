"""Base of the stores over a database: publishes outlive their callers, and watchers see every commit exactly once."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from archon.errors import ResourceExhausted, Unavailable
from archon.failure_kinds import STORAGE
from archon_services.common.feed import MAX_QUEUED, Feed
from archon_services.memory.domain.items import Publish, Published, PublishOutcome, StoredItem
from archon_services.memory.store.port import WorkingStore

T = TypeVar("T")

TIMEOUT: Final = 10.0
"""Seconds that a caller waits for the store."""

MAX_PUBLISHES: Final = 256
"""Publishes in flight; at up to 4 MiB each, this bounds their memory."""

MAX_QUEUED_CHARACTERS: Final = 16 * 1024 * 1024
"""Text that may wait for one watcher, beside the publish that exceeds it."""

ItemFeed = Feed[Sequence[StoredItem]]
"""Fan-out of publishes; the topic is (tenant, scope)."""


def item_feed(*, max_queued: int = MAX_QUEUED) -> ItemFeed:
    """Creates a feed of publishes; `max_queued` of them may wait for one watcher."""
    return ItemFeed(max_queued=max_queued, max_size=MAX_QUEUED_CHARACTERS, size=_characters)


def _characters(items: Sequence[StoredItem]) -> int:
    return sum(len(stored.item.content) for stored in items)


def system_clock() -> float:
    """Returns seconds since the Unix epoch, in whole microseconds."""
    return round(time.time(), 6)


class SqlStore(ABC):
    """Implements the parts of MemoryStore that watchers rely on.

    `_commit` and `_snapshot` must return in the order in which the store executed them, each directly to its caller:
    a watcher then sees each publish that commits after its snapshot exactly once. `clock` returns seconds since the
    Unix epoch.
    """

    working: WorkingStore

    def __init__(self, clock: Callable[[], float], feed: ItemFeed | None) -> None:
        self._clock = clock
        self._feed = feed or item_feed()
        self._publishes: set[asyncio.Task[list[Published]]] = set()

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Opens the store."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the store."""

    @abstractmethod
    async def items(self, tenant: str, scope: str) -> list[StoredItem]: ...

    @abstractmethod
    async def clear(self, tenant: str, scope: str) -> int: ...

    @abstractmethod
    async def load_role_graph(self) -> str: ...

    @abstractmethod
    async def save_role_graph(self, graph_json: str) -> None: ...

    @abstractmethod
    async def _commit(self, request: Publish, now: float) -> PublishOutcome:
        """Commits a publish, durable on return."""

    @abstractmethod
    async def _snapshot(self, tenant: str, scope: str) -> list[StoredItem]:
        """Reads the items of a scope, in order with the commits."""

    async def publish(self, request: Publish) -> list[Published]:
        if len(self._publishes) >= MAX_PUBLISHES:
            raise ResourceExhausted("too many publishes in flight", retry_delay=0.5, kind=STORAGE)
        # A task of its own: watchers see the commit even if the caller is cancelled.
        task = asyncio.create_task(self._publish(request), name="memory: publish")
        self._publishes.add(task)
        task.add_done_callback(self._publishes.discard)
        return await with_timeout(asyncio.shield(task))

    async def _publish(self, request: Publish) -> list[Published]:
        results, new_items = await self._commit(request, self._clock())
        self._announce(request, new_items)
        return results

    def _announce(self, request: Publish, new_items: Sequence[StoredItem]) -> None:
        if new_items:
            self._feed.publish(new_items, (request.tenant, request.scope))

    async def watch(self, tenant: str, scope: str) -> AsyncGenerator[list[StoredItem], None]:
        # Nothing may be awaited between the snapshot and the subscription: the feed carries every later commit.
        snapshot = await with_timeout(self._snapshot(tenant, scope))
        with self._feed.subscribe((tenant, scope)) as subscription:
            now = self._clock()
            yield [stored for stored in snapshot if not stored.item.is_expired(now)]
            while True:
                yield list(await subscription.next())

    def end_watches(self) -> None:
        stopping = Unavailable("this memory service is stopping", retry_delay=0.1)
        self._feed.close(stopping)
        self.working.end_watches(stopping)

    async def _finish_publishes(self) -> None:
        """Waits for publishes in flight, at most TIMEOUT seconds."""
        if self._publishes:
            await asyncio.wait(self._publishes, timeout=TIMEOUT)


async def with_timeout(operation: Awaitable[T]) -> T:
    """Awaits an operation of the store. Raises Unavailable after TIMEOUT seconds; the operation may still complete."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return await operation
    except TimeoutError:
        raise Unavailable(
            "the memory store takes too long; the request may still complete", retry_delay=1.0, kind=STORAGE
        ) from None
