"""The topics of a gateway: one watch for all viewers of the same thing, which ends some time after the last viewer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

from archon.errors import ResourceExhausted
from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.watches.topic import Topic

MAX_TOPICS: Final = 1_000

MAX_ALL_BYTES: Final = 64 * 1024 * 1024
"""Bytes of frames that all topics keep together."""

LINGER: Final = 5.0
"""Seconds for which a topic without viewers is kept: a browser that was cut off comes back."""

T = TypeVar("T", bound=Topic)


class Hub(Generic[T]):
    """Topics by their keys. `make` returns a new one, with the budget of all. Close it at the end."""

    def __init__(self, make: Callable[[Hashable, ByteBudget], T]) -> None:
        self._make = make
        self._budget = ByteBudget(MAX_ALL_BYTES)
        self._topics: dict[Hashable, T] = {}
        self._viewers: dict[Hashable, int] = {}
        self._leaving: dict[Hashable, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def number(self) -> int:
        """The number of topics that are kept."""
        return len(self._topics)

    @asynccontextmanager
    async def viewing(self, key: Hashable) -> AsyncIterator[T]:
        """The topic of a key for the duration of the block. Raises ResourceExhausted if there are too many. After `end`
        it has ended: a viewer that comes then gets a stream that ends, after which a browser connects again; after a
        status it would not."""
        topic = self._topics.get(key)
        if topic is not None and topic.failure is not None and not topic.stopped and not self._viewers.get(key):
            self._drop(key)  # it is tried anew
            topic = None
        if topic is None:
            if len(self._topics) >= MAX_TOPICS:
                raise ResourceExhausted(f"viewers watch more than {MAX_TOPICS:,} runs", retry_delay=5.0)
            topic = self._topics[key] = self._make(key, self._budget)
            if self._stopped:
                topic.stop()
            else:
                topic.start()
        if (timer := self._leaving.pop(key, None)) is not None:
            timer.cancel()
        self._viewers[key] = self._viewers.get(key, 0) + 1
        try:
            yield topic
        finally:
            if self._topics.get(key) is topic:
                self._leave(key)

    def _leave(self, key: Hashable) -> None:
        self._viewers[key] -= 1
        if not self._viewers[key]:
            self._leaving[key] = asyncio.get_running_loop().call_later(LINGER, self._drop, key)

    def _drop(self, key: Hashable) -> None:
        if (timer := self._leaving.pop(key, None)) is not None:
            timer.cancel()
        self._viewers.pop(key, None)
        task = asyncio.create_task(self._topics.pop(key).close(), name="close a topic")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end(self) -> None:
        """Ends the streams of all viewers, who connect again elsewhere."""
        self._stopped = True
        for topic in self._topics.values():
            topic.stop()

    async def close(self) -> None:
        """Ends all topics."""
        self.end()
        for key in list(self._topics):
            self._drop(key)
        await asyncio.gather(*self._closing)
