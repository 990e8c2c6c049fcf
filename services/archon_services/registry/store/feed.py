"""The state as this process sees it, and those who follow it: each watcher gets a snapshot, then every change once.

A store puts in what happens (`apply`), or the whole where it had to look again (`reset`). The last changes are kept, so
that a watcher can resume; where they don't reach back far enough it starts with a snapshot again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from archon import errors
from archon.api.registry.v1.registry_pb2 import Graph
from archon_services.registry.domain import edges
from archon_services.registry.domain.state import Change, State, Update, difference

HISTORY: Final = 1_000
"""Changes kept to resume from."""

MAX_WATCHERS: Final = 1_000
"""Orchestrators and memory services watch, and whoever looks on: not agents."""

QUEUE: Final = 256
"""Changes that wait for one watcher; one that is slower is sent away."""


class _Watcher:
    """One watcher's queue. Its end is told after what is queued; of one that is too slow, at once."""

    def __init__(self, bound: int) -> None:
        self._queue: deque[Change] = deque()
        self._bound = bound
        self._end: errors.ArchonError | None = None
        self._news = asyncio.Event()

    def tell(self, change: Change) -> None:
        if len(self._queue) >= self._bound:
            self._queue.clear()
            self.end(
                errors.ResourceExhausted(
                    "the watcher is too slow; watch again from the last revision received", retry_delay=1.0
                )
            )
        elif self._end is None:
            self._queue.append(change)
            self._news.set()

    def end(self, error: errors.ArchonError) -> None:
        self._end = self._end or error
        self._news.set()

    async def next(self) -> Change:
        """Waits for the next change; it is the watcher's own call that bounds the wait."""
        while not self._queue:
            if self._end is not None:
                raise self._end
            self._news.clear()
            await self._news.wait()
        return self._queue.popleft()


class Feed:
    """One process's view of the registry."""

    def __init__(self, *, history: int = HISTORY, queue: int = QUEUE) -> None:
        self.state = State()
        self.graph = Graph()
        self.ready = asyncio.Event()
        """Set while the view follows the store."""
        self._history: deque[Change] = deque(maxlen=history)
        self._reaches_back_to = 0
        self._queue = queue
        self._watchers: set[_Watcher] = set()

    def apply(self, revision: int, update: Update) -> None:
        """All that one revision of the store changed."""
        self._become(self.state.changed(update, revision))

    def reset(self, state: State) -> None:
        """The whole, after a time without news. Watchers get the difference; where the store went back, a snapshot."""
        first = not self._reaches_back_to
        if first or state.revision < self.state.revision:
            self.state, self.graph = state, edges.graph(state)
            self._history.clear()
            self._reaches_back_to = max(1, state.revision)
            for watcher in self._watchers:
                watcher.tell(self._snapshot())
        else:
            self._become(state)
        self.ready.set()

    def end(self, error: errors.ArchonError) -> None:
        """Ends all watches with this error."""
        for watcher in self._watchers:
            watcher.end(error)

    async def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        """A snapshot, or what changed since `from_revision`, then every change. Raises ResourceExhausted where the
        caller is too slow or too many watch, and whatever `end` was told."""
        if len(self._watchers) >= MAX_WATCHERS:
            raise errors.ResourceExhausted(f"{MAX_WATCHERS:,} watch this registry", retry_delay=1.0)
        watcher = _Watcher(self._queue)
        if self._reaches_back_to <= from_revision <= self.state.revision and self._reaches_back_to:
            first = [change for change in self._history if change.revision > from_revision]
        else:
            first = [self._snapshot()]
        self._watchers.add(watcher)
        try:
            for change in first:
                yield change
            while True:
                yield await watcher.next()
        finally:
            self._watchers.discard(watcher)

    def _snapshot(self) -> Change:
        return Change(self.state.revision, True, tuple(self.state.instances.values()), (), self.graph)

    def _become(self, state: State) -> None:
        old_graph = self.graph
        changed, removed = difference(self.state, state)
        self.state, self.graph = state, edges.graph(state)
        same = Graph()
        same.CopyFrom(old_graph)
        same.revision = self.graph.revision
        graph = None if same == self.graph else self.graph
        if not changed and not removed and graph is None:
            return
        change = Change(state.revision, False, changed, removed, graph)
        if len(self._history) == self._history.maxlen:
            self._reaches_back_to = self._history[0].revision
        self._history.append(change)
        for watcher in self._watchers:
            watcher.tell(change)
