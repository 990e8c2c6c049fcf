"""Who follows runs. Durable events come from the journal where a watcher has fallen behind; deltas are dropped then."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import Unavailable
from archon_services.orchestrator.journal import Journal

MAX_QUEUED: Final = 2_000
MAX_BATCH: Final = 200
KEEPALIVE: Final = 15.0


class _Watcher:
    def __init__(self) -> None:
        self.queue: deque[run_pb2.RunEvent] = deque()
        self.behind = False
        self.ready = asyncio.Event()

    def put(self, event: run_pb2.RunEvent) -> None:
        if len(self.queue) >= MAX_QUEUED:
            if event.seq == 0:
                return
            self.fall_behind()
        if not self.behind:
            self.queue.append(event)
        self.ready.set()

    def fall_behind(self) -> None:
        """What is durable is read from the journal; deltas that waited are lost."""
        self.queue.clear()
        self.behind = True
        self.ready.set()


class Watchers:
    """Hands a run's events to those who follow it, each once and in order."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._watchers: dict[str, list[_Watcher]] = {}
        self._closed = False
        self._tap: Callable[[list[run_pb2.RunEvent]], None] | None = None

    def tap(self, told: Callable[[list[run_pb2.RunEvent]], None]) -> None:
        """`told` gets all events of all runs, as they become durable."""
        self._tap = told

    def publish(self, run_id: str, events: list[run_pb2.RunEvent]) -> None:
        """Never waits for a watcher."""
        if self._tap is not None:
            self._tap(events)
        for watcher in self._watchers.get(run_id, ()):
            for event in events:
                watcher.put(event)

    def close(self) -> None:
        """Ends every watch with Unavailable: they resume elsewhere, or here after a restart."""
        self._closed = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.ready.set()

    def watched(self, run_id: str) -> bool:
        """True where somebody follows the run."""
        return run_id in self._watchers

    async def follow(
        self, run_id: str, after_seq: int, *, durable_only: bool = False
    ) -> AsyncGenerator[list[run_pb2.RunEvent], None]:
        """Batches of events after `after_seq`, an empty one where nothing happens for KEEPALIVE seconds; ends after the
        run's last event."""
        watcher = _Watcher()
        self._watchers.setdefault(run_id, []).append(watcher)
        try:
            cursor = after_seq
            watcher.behind = True
            watcher.ready.set()
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE):
                        await watcher.ready.wait()
                except TimeoutError:
                    yield []
                    continue
                watcher.ready.clear()
                if self._closed:
                    raise Unavailable("the orchestrator is stopping; watch again from the last event seen")
                if watcher.behind:
                    # From here on new events are queued again; what was read meanwhile is skipped by its seq.
                    watcher.behind = False
                    async for batch in self._stored(run_id, cursor):
                        cursor = batch[-1].seq
                        yield batch
                        if _last(batch[-1]):
                            return
                while watcher.queue:
                    batch = []
                    while watcher.queue and len(batch) < MAX_BATCH:
                        event = watcher.queue.popleft()
                        if event.seq == 0 and durable_only:
                            continue
                        if event.seq and event.seq <= cursor:
                            continue
                        if event.seq > cursor + 1:
                            watcher.fall_behind()  # an append whose outcome wasn't known: the journal has it
                            break
                        cursor = event.seq or cursor
                        batch.append(event)
                    if batch:
                        yield batch
                        if _last(batch[-1]):
                            return
        finally:
            self._watchers[run_id].remove(watcher)
            if not self._watchers[run_id]:
                del self._watchers[run_id]

    async def _stored(self, run_id: str, after: int) -> AsyncGenerator[list[run_pb2.RunEvent], None]:
        while page := await self._journal.events(run_id, after, MAX_BATCH):
            events = [run_pb2.RunEvent.FromString(data) for data in page]
            after = events[-1].seq
            yield events


def _last(event: run_pb2.RunEvent) -> bool:
    return event.WhichOneof("event") == "run_state"
