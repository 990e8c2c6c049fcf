"""Who follows runs. Durable events come from the journal where a watcher has fallen behind; deltas are dropped then."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ResourceExhausted, Unavailable
from archon_services.orchestrator.convert import from_journal
from archon_services.orchestrator.journal import Journal

MAX_WATCHERS: Final = 10_000
MAX_QUEUED: Final = 2_000
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
MAX_BATCH: Final = 200
BATCH_BYTES: Final = 1024 * 1024
"""A batch ends above it: what is larger than a peer takes would end its watch. One event is at most about 4 MiB."""

FIRST_PAGE: Final = 25
KEEPALIVE: Final = 15.0
_ENDS: Final = ("result", "input_requested", "lost", "rejected", "retry", "discarded")


class _Watcher:
    def __init__(self, after: int) -> None:
        """`after`: the last event that was seen before."""
        self._after = after
        self.queue: deque[tuple[run_pb2.RunEvent, int, int]] = deque()
        """Each with its size, and the last event that its source knew."""
        self.bytes = 0
        self.behind = False
        self.ready = asyncio.Event()
        self._over: dict[str, int] = {}

    def seen(self, event: run_pb2.RunEvent) -> None:
        """A durable event goes out: nothing passing of an attempt comes after its end."""
        if event.WhichOneof("event") in _ENDS:
            task = event.task  # an earlier attempt's result may be thrown away after a later one's end
            self._over[task.task_id] = max(task.attempt, self._over.get(task.task_id, 0))

    def late(self, event: run_pb2.RunEvent, known: int) -> bool:
        """Whether that passing event's attempt is known to be over; or may be, where its source knew less than was seen
        before this watch."""
        return known < self._after or event.task.attempt <= self._over.get(event.task.task_id, -1)

    def put(self, event: run_pb2.RunEvent, known: int) -> None:
        size = event.ByteSize()
        if len(self.queue) >= MAX_QUEUED or self.bytes + size > MAX_QUEUED_BYTES:
            if event.seq == 0:
                return
            self.fall_behind()
        if not self.behind:
            self.queue.append((event, size, known))
            self.bytes += size
        self.ready.set()

    def take(self) -> tuple[run_pb2.RunEvent, int, int]:
        """The next event, its size, and what its source knew."""
        taken = self.queue.popleft()
        self.bytes -= taken[1]
        return taken

    def fall_behind(self) -> None:
        """What is durable is read from the journal; deltas that waited are lost."""
        self.queue.clear()
        self.bytes = 0
        self.behind = True
        self.ready.set()


class WatchHub:
    """Hands a run's events to those who follow it, each once and in order."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._watchers: dict[str, list[_Watcher]] = {}
        self._count = 0
        self._closed = False
        self._tap: Callable[[list[run_pb2.RunEvent]], None] | None = None

    def tap(self, told: Callable[[list[run_pb2.RunEvent]], None]) -> None:
        """`told` gets all events of all runs, as they become durable."""
        self._tap = told

    def publish(self, run_id: str, events: list[run_pb2.RunEvent], known: int = 0) -> None:
        """Never waits for a watcher. `known` is the last durable event that whoever says this knows of: who had seen a
        later one before its watch isn't told what passes, since the other may have been deposed, and not know that an
        attempt is over.
        """
        if self._tap is not None:
            self._tap(events)
        for watcher in self._watchers.get(run_id, ()):
            last = known
            for event in events:
                last = max(last, event.seq)
                watcher.put(event, last)

    def refresh(self, run_id: str) -> None:
        """There may be more in the journal than was said here."""
        for watcher in self._watchers.get(run_id, ()):
            watcher.fall_behind()

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
        run's last event. Raises ResourceExhausted above the bound of watchers."""
        if self._count >= MAX_WATCHERS:
            raise ResourceExhausted(f"{MAX_WATCHERS:,} runs are watched here", retry_delay=1.0)
        watcher = _Watcher(after_seq)
        self._count += 1
        self._watchers.setdefault(run_id, []).append(watcher)
        try:
            cursor = after_seq
            watcher.behind = True
            watcher.ready.set()
            while True:
                if not watcher.ready.is_set():  # a timer costs more than all the rest
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
                        for event in batch:
                            watcher.seen(event)
                        yield batch
                        if _last(batch[-1]):
                            return
                while watcher.queue:
                    batch, total = [], 0
                    while watcher.queue and len(batch) < MAX_BATCH and total < BATCH_BYTES:
                        event, size, known = watcher.take()
                        if event.seq == 0 and (durable_only or watcher.late(event, known)):
                            continue
                        if event.seq and event.seq <= cursor:
                            continue
                        if event.seq > cursor + 1:
                            watcher.fall_behind()  # an append whose outcome wasn't known: the journal has it
                            break
                        if event.seq:
                            cursor = event.seq
                            watcher.seen(event)
                        batch.append(event)
                        total += size
                    if batch:
                        yield batch
                        if _last(batch[-1]):
                            return
        finally:
            self._count -= 1
            self._watchers[run_id].remove(watcher)
            if not self._watchers[run_id]:
                del self._watchers[run_id]

    async def _stored(self, run_id: str, after: int) -> AsyncGenerator[list[run_pb2.RunEvent], None]:
        """Small pages where events are large, so that a watcher holds little of its run at a time."""
        limit = FIRST_PAGE
        while page := await self._journal.events(run_id, after, limit):
            batch: list[run_pb2.RunEvent] = []
            total = 0
            for data in page:
                if total >= BATCH_BYTES:
                    yield batch
                    batch, total = [], 0
                batch.append(from_journal(run_pb2.RunEvent, data, run_id))
                total += len(data)
            after = batch[-1].seq
            limit = FIRST_PAGE if total >= BATCH_BYTES else min(MAX_BATCH, limit * 2)
            yield batch


def _last(event: run_pb2.RunEvent) -> bool:
    return event.WhichOneof("event") == "run_state"
