"""Fan-out to watchers: each subscription gets every item of its topic once, in order, from a bounded queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from archon.errors import ArchonError, ResourceExhausted

T = TypeVar("T")

MAX_SUBSCRIPTIONS: Final = 1_000
"""Subscriptions of one feed, over all topics. Services and operators watch; agents do not."""

MAX_QUEUED: Final = 256
"""Items that wait for one subscription; a slower reader is disconnected."""


class Subscription(Generic[T]):
    """The queue of one watcher. Its end comes after the queued items, or at once if the watcher was too slow."""

    def __init__(self, max_queued: int, max_size: float, size: Callable[[T], int], resume_hint: str) -> None:
        self._queue: deque[T] = deque()
        self._max_queued = max_queued
        self._max_size = max_size
        self._size_of = size
        self._resume_hint = resume_hint
        self._size = 0
        self._end: ArchonError | None = None
        self._wake = asyncio.Event()

    def put(self, item: T) -> None:
        """Queues an item without waiting. If the queue is full, drops it and ends with ResourceExhausted."""
        if self._end is not None:
            return
        if len(self._queue) >= self._max_queued or self._size > self._max_size:
            self._queue.clear()
            message = f"the watcher is too slow; watch again {self._resume_hint}"
            self.end(ResourceExhausted(message, retry_delay=1.0))
            return
        self._queue.append(item)
        self._size += self._size_of(item)
        self._wake.set()

    def end(self, error: ArchonError) -> None:
        """Ends the subscription with `error`; the first error counts."""
        self._end = self._end or error
        self._wake.set()

    async def next(self) -> T:
        """Waits for the next item, without a bound of its own: the watcher's call has a deadline. Raises the error that
        ended the subscription."""
        while not self._queue:
            if self._end is not None:
                raise self._end
            self._wake.clear()
            await self._wake.wait()
        item = self._queue.popleft()
        self._size -= self._size_of(item)
        return item


class Feed(Generic[T]):
    """All subscriptions of one process, by topic.

    A queue may hold `max_queued` items, and `max_size` in the unit of `size` beside the item that exceeds it.
    `resume_hint` completes the message for a watcher that was too slow.
    """

    def __init__(
        self,
        *,
        max_queued: int = MAX_QUEUED,
        max_size: float = float("inf"),
        size: Callable[[T], int] = lambda _: 0,
        resume_hint: str = "from a snapshot",
    ) -> None:
        self._limits = (max_queued, max_size, size, resume_hint)
        self._subscriptions: dict[Hashable, set[Subscription[T]]] = {}
        self._closed_by: ArchonError | None = None

    def publish(self, item: T, topic: Hashable = None) -> None:
        """Queues an item for every subscription of a topic."""
        for subscription in self._subscriptions.get(topic, ()):
            subscription.put(item)

    def end(self, error: ArchonError) -> None:
        """Ends all current subscriptions with `error`."""
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.end(error)

    def close(self, error: ArchonError) -> None:
        """Ends all subscriptions with `error`, including those made later."""
        self._closed_by = error
        self.end(error)

    @contextmanager
    def subscribe(self, topic: Hashable = None) -> Iterator[Subscription[T]]:
        """A subscription for the duration of the block. Raises ResourceExhausted if there are too many."""
        if sum(map(len, self._subscriptions.values())) >= MAX_SUBSCRIPTIONS:
            raise ResourceExhausted(f"too many watchers: at most {MAX_SUBSCRIPTIONS:,}", retry_delay=1.0)
        subscription = Subscription[T](*self._limits)
        if self._closed_by is not None:
            subscription.end(self._closed_by)
        self._subscriptions.setdefault(topic, set()).add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions[topic].discard(subscription)
            if not self._subscriptions[topic]:
                del self._subscriptions[topic]
