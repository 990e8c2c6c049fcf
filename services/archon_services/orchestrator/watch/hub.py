"""The hub that hands a run's events to those who watch it, each once and in order.

Durable events are handed on as the stored bytes of their step (see `Step.data`). A watcher that has fallen behind reads
them from the journal; passing events (text deltas, tool events) are dropped then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss, ResourceExhausted, Unavailable
from archon_mesh.core.value import value
from archon_mesh.engine import events as ev
from archon_services.common.byte_budget import ByteBudget
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import Journal, Step, StoredStep
from archon_services.orchestrator.journal.framing import frame
from archon_services.orchestrator.journal.retained import details_removed

MAX_WATCHERS: Final = 10_000
MAX_QUEUED: Final = 2_000
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
MAX_ALL_QUEUED_BYTES: Final = 256 * 1024 * 1024
"""Bytes queued for all watchers."""

MAX_BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""Bytes that all watchers have read from the journal and not sent yet. They stand in pages, batches and messages: the
process holds several times as much."""

BACKLOG_PATIENCE: Final = 10.0
"""Seconds that a watch waits to read from the journal, if too many others do not take their pages."""

BATCH_BYTES: Final = 1024 * 1024
"""A batch ends above this size: a peer that takes less would lose its watch. A single event has at most about 4 MiB."""

MAX_PAGE: Final = 200
"""Steps that are read from the journal at a time."""

KEEPALIVE: Final = 15.0

_END_EVENTS: Final = (
    ev.ResultReceived,
    ev.InputRequested,
    ev.ApprovalRequested,
    ev.Lost,
    ev.Rejected,
    ev.Retried,
    ev.Discarded,
)
_END_ARMS: Final = frozenset(
    {"result", "input_requested", "approval_requested", "lost", "rejected", "retry", "discarded"}
)

Attempt = tuple[str, int]
"""Task id and attempt."""


@value
class Batch:
    """Some events of a run, framed as a WatchRunResponse. `first` and `last` are the numbers of its durable events;
    both are 0 for a passing event."""

    data: bytes
    first: int = 0
    last: int = 0
    ends: tuple[Attempt, ...] = ()
    """Attempts that end with these events."""

    final: bool = False
    """Whether the run's last event is among them."""

    passing: Attempt | None = None
    """The attempt of a passing event."""

    known: int = 0
    """Of a passing event: the last durable event that its source knew."""


def batch_of(event: run_pb2.RunEvent, known: int = 0) -> Batch:
    """Makes a batch of one event."""
    data, attempt = frame(event.SerializeToString()), (event.task.task_id, event.task.attempt)
    if not event.seq:
        return Batch(data, passing=attempt, known=known)
    ends, final = (attempt,) if _ends_attempt(event) else (), event.WhichOneof("event") == "run_state"
    return Batch(data, event.seq, event.seq, ends, final)


def _ended_attempt(event: ev.Event) -> Attempt | None:
    """The attempt that the event ends; None if it ends none. As `_ends_attempt`."""
    if not isinstance(event, _END_EVENTS) or (isinstance(event, ev.InputRequested) and event.sequence):
        return None
    return event.task_id, event.attempt


def _ends_attempt(event: run_pb2.RunEvent) -> bool:
    """Whether the event ends an attempt: a question with a sequence number does not, its attempt continues."""
    return event.WhichOneof("event") in _END_ARMS and not event.input_requested.sequence


class Tail:
    """The newest events of one run, for one watcher. Not behind, it holds every event after `cursor`."""

    __slots__ = ("_all_queued", "_ended", "_on_news", "_start", "behind", "cursor", "queue", "run_id", "size")

    def __init__(
        self, run_id: str, after: int, on_news: Callable[[Tail], None], all_queued: ByteBudget | None = None
    ) -> None:
        """`after` is the last event that the watcher has seen before; `on_news` is called when there is something to
        take; `all_queued` counts the bytes queued for all watchers."""
        self._all_queued = all_queued or ByteBudget(MAX_ALL_QUEUED_BYTES)
        self.run_id = run_id
        self.cursor = after
        self.queue: deque[Batch] = deque()
        self.size = 0
        self.behind = False
        self._start = after
        self._on_news = on_news
        self._ended: dict[str, int] = {}

    def put(self, batch: Batch) -> None:
        """Queues a batch. Above the bounds passing events are dropped, and durable ones make the tail fall behind."""
        if self.behind:
            self._on_news(self)
            return
        size = len(batch.data)
        queued = self._all_queued
        full = len(self.queue) >= MAX_QUEUED or self.size + size > MAX_QUEUED_BYTES
        if full or queued.used + size > queued.limit:
            if batch.passing is not None:
                return
            self.fall_behind()
            return
        self.queue.append(batch)
        self.size += size
        queued.used += size
        self._on_news(self)

    def fall_behind(self) -> None:
        """Durable events must be read from the journal; queued passing events are lost."""
        self.clear()
        self.behind = True
        self._on_news(self)

    def clear(self) -> None:
        """Drops the queued batches."""
        self.queue.clear()
        self._all_queued.give(self.size)
        self.size = 0

    def take(self, *, durable_only: bool = False) -> Batch | None:
        """Returns the next batch to show; None if there is none, or if the tail has fallen behind."""
        while self.queue:
            batch = self.queue.popleft()
            size = len(batch.data)
            self.size -= size
            self._all_queued.used -= size
            if batch.passing is not None:
                if not durable_only and not self._late(batch.passing, batch.known):
                    return batch
            elif batch.last > self.cursor:
                if batch.first > self.cursor + 1:  # a step whose result was unknown lies in between
                    self.fall_behind()
                    return None
                batch = batch if batch.first == self.cursor + 1 else after(batch, self.cursor)
                self.seen(batch)
                return batch
        return None

    def seen(self, batch: Batch) -> None:
        """Durable events are shown: a passing event of an attempt that they end comes too late from here on."""
        self.cursor = batch.last
        for task_id, attempt in batch.ends:  # an earlier attempt's result may be discarded after a later one's end
            if attempt > self._ended.get(task_id, 0):
                self._ended[task_id] = attempt

    def _late(self, attempt: Attempt, known: int) -> bool:
        """Whether the attempt has ended; or may have, since the source knew less than the watcher saw before its
        watch."""
        return known < self._start or attempt[1] <= self._ended.get(attempt[0], -1)


def parted(batch: Batch) -> Sequence[Batch]:
    """Splits a batch of durable events that is too large for one message."""
    if len(batch.data) <= BATCH_BYTES or batch.first == batch.last:
        return (batch,)
    return [batch_of(event) for event in pb.WatchRunResponse.FromString(batch.data).events]


def after(batch: Batch, seq: int) -> Batch:
    """Returns the part of a batch of durable events after event `seq`."""
    events = [event for event in pb.WatchRunResponse.FromString(batch.data).events if event.seq > seq]
    data = pb.WatchRunResponse(events=events).SerializeToString()
    return Batch(data, seq + 1, batch.last, batch.ends, batch.final)


class WatchHub:
    """All watchers of this process, by run."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tails: dict[str, list[Tail]] = {}
        self._count = 0
        self.streams = 0
        """Converse streams that are open."""

        self._queued = ByteBudget(MAX_ALL_QUEUED_BYTES)
        self._backlog = ByteBudget(MAX_BACKLOG_BYTES)
        self.closed = False

    def publish_step(self, step: Step, events: Sequence[ev.Event]) -> None:
        """Shows a durable step. Never waits for a watcher."""
        tails = self._tails.get(step.run_id)
        if tails is None:
            return
        ends = tuple(filter(None, map(_ended_attempt, events)))
        batch = Batch(step.data, step.base + 1, step.last_seq, ends, step.ended)
        for part in parted(batch) if len(step.data) > BATCH_BYTES else (batch,):
            for tail in tuple(tails):
                tail.put(part)

    def publish_passing(self, event: run_pb2.RunEvent, known: int) -> None:
        """Shows a passing event. `known` is the last durable event that its source knows: a watcher that has seen a
        later one before its watch is not shown it, since the source may be deposed and not know that the attempt has
        ended."""
        self.publish(event.run_id, [event], known)

    def publish(self, run_id: str, events: Iterable[run_pb2.RunEvent], known: int = 0) -> None:
        """Shows events that another replica sent."""
        for event in events:
            known = max(known, event.seq)
            batch = batch_of(event, known)
            for tail in tuple(self._tails.get(run_id, ())):
                tail.put(batch)

    def refresh(self, run_id: str) -> None:
        """Has the run's watchers look into the journal."""
        for tail in tuple(self._tails.get(run_id, ())):
            tail.fall_behind()

    def close(self) -> None:
        """Ends every watch with Unavailable: watchers resume elsewhere, or here after a restart."""
        self.closed = True
        for tails in tuple(self._tails.values()):
            for tail in tuple(tails):
                tail.fall_behind()

    def watched(self, run_id: str) -> bool:
        """Whether the run has a watcher here."""
        return run_id in self._tails

    def attach(self, run_id: str, after_seq: int, on_news: Callable[[Tail], None]) -> Tail:
        """Adds a watcher of the events published from here on. Raises ResourceExhausted if there are too many."""
        if self._count >= MAX_WATCHERS:
            raise ResourceExhausted(f"{MAX_WATCHERS:,} watches are open here", retry_delay=1.0)
        tail = Tail(run_id, after_seq, on_news, self._queued)
        self._count += 1
        self._tails.setdefault(run_id, []).append(tail)
        return tail

    def detach(self, tail: Tail) -> None:
        """Removes a watcher. Idempotent."""
        tails = self._tails.get(tail.run_id, [])
        tail.clear()
        if tail in tails:
            tails.remove(tail)
            self._count -= 1
            if not tails:
                del self._tails[tail.run_id]

    async def follow(self, run_id: str, after_seq: int, *, durable_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Yields batches of events after `after_seq`, each framed as a WatchRunResponse, and an empty one if nothing
        happens for KEEPALIVE seconds; ends after the run's last event. Raises ResourceExhausted if there are too many
        watchers, Unavailable if the orchestrator stops, RunExpired if the events were deleted meanwhile."""
        news = asyncio.Event()
        tail = self.attach(run_id, after_seq, lambda _: news.set())
        tail.behind = True
        news.set()
        try:
            while True:
                if not news.is_set():  # a timer costs more than all the rest
                    try:
                        async with asyncio.timeout(KEEPALIVE):
                            await news.wait()
                    except TimeoutError:
                        yield b""
                        continue
                news.clear()
                if self.closed:
                    raise Unavailable("the orchestrator is stopping; watch again from the last event seen")
                if tail.behind:
                    # From here on new events are queued again; events read meanwhile are skipped by their numbers.
                    tail.behind, cursor = False, tail.cursor
                    async with aclosing(self._stored(run_id, cursor)) as stored:
                        async for batch in stored:
                            tail.seen(batch)
                            yield batch.data
                            if batch.final:
                                return
                    if tail.cursor == cursor:
                        await self._check_stored(run_id)
                async for data, final in _drained(tail, durable_only=durable_only):
                    yield data
                    if final:
                        return
        finally:
            self.detach(tail)

    async def _check_stored(self, run_id: str) -> None:
        """Raises RunExpired if the journal has no events of the run any more: a watcher would wait for ever."""
        row = await self._journal.run(run_id)
        if row is None or row.compacted:
            raise details_removed(run_id)

    async def _stored(self, run_id: str, after_seq: int) -> AsyncGenerator[Batch, None]:
        """Reads pages of a bounded size, so that a watcher holds little of its run at a time, and all watchers together
        do not hold too much. Raises ResourceExhausted if others hold too much for long."""
        cursor = after_seq
        while True:
            if not await self._backlog.wait(BATCH_BYTES, BACKLOG_PATIENCE):
                raise ResourceExhausted(
                    "too many watchers do not read their events; watch again from the last event seen",
                    retry_delay=1.0,
                )
            held = BATCH_BYTES
            try:
                page = await self._journal.steps(run_id, cursor, MAX_PAGE, BATCH_BYTES)
                if not page:
                    return
                size = sum(len(step.data) for step in page)
                self._backlog.take(size - held)
                held = size
                for batch in _batches(page, run_id, cursor):
                    yield batch
                cursor = page[-1].last_seq
            finally:
                self._backlog.give(held)


def _batches(page: Sequence[StoredStep], run_id: str, cursor: int) -> Iterator[Batch]:
    """The events of a page after `cursor`, in batches of about BATCH_BYTES."""
    gathered: list[Batch] = []
    total = 0
    for step in page:
        for batch in parted(_read(step.data, run_id, cursor)):
            gathered.append(batch)
            total += len(batch.data)
            if total >= BATCH_BYTES:
                yield _joined(gathered)
                gathered, total = [], 0
        cursor = step.last_seq
    if gathered:
        yield _joined(gathered)


async def _drained(tail: Tail, *, durable_only: bool) -> AsyncGenerator[tuple[bytes, bool], None]:
    """Takes everything that is queued, in messages of about BATCH_BYTES."""
    while tail.queue:
        parts: list[bytes] = []
        size, final = 0, False
        while size < BATCH_BYTES and not final and (batch := tail.take(durable_only=durable_only)) is not None:
            parts.append(batch.data)
            size, final = size + len(batch.data), batch.final
        if parts:
            yield b"".join(parts), final


def _read(data: bytes, run_id: str, after_seq: int) -> Batch:
    """Makes a batch of a stored step. Raises DataLoss."""
    events = events_of(data, run_id)
    if not events:
        raise DataLoss(f"a step of run {run_id} has no events", metadata={"run_id": run_id})
    ends = tuple((event.task.task_id, event.task.attempt) for event in events if _ends_attempt(event))
    final = events[-1].WhichOneof("event") == "run_state"
    batch = Batch(data, events[0].seq, events[-1].seq, ends, final)
    return batch if batch.first > after_seq else after(batch, after_seq)


def _joined(batches: Sequence[Batch]) -> Batch:
    ends = tuple(end for batch in batches for end in batch.ends)
    data = b"".join(batch.data for batch in batches)
    return Batch(data, batches[0].first, batches[-1].last, ends, batches[-1].final)
