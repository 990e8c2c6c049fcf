"""Hands the spans of runs to the exporter of the process, once a run has ended.

The spans of a run are exported by the replica that ended it, from the events that it has stored; if it did not store
all of them itself, it reads them from the journal. The runs that a replica ended right before its death are exported
by the one that expires it: some may be exported twice then, with the same ids, times and attributes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from archon.api.orchestrator.v1 import run_pb2
from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss
from archon.telemetry.export import Export
from archon_mesh.engine import events as ev
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.journal import Journal, Step
from archon_services.orchestrator.observability.run_log import RunLog

if TYPE_CHECKING:
    from archon.telemetry.span_data import SpanData

_log = logging.getLogger(__name__)

MAX_WAITING: Final = 1_000
"""Runs whose events are still to be read from the journal; further ones are not exported."""

UNCONFIRMED: Final = 5.0
"""Seconds of work whose spans a replica that died may not have exported."""

MAX_DEAD: Final = 64
"""Replicas that died and whose last runs are still to be looked for."""

MAX_RECOVERED: Final = 1_000
"""Runs of a dead replica that are looked at."""

HELD: Final = 5
"""How many times the bytes that a step is stored as its events hold in memory, about."""

LoadEvents = Callable[[str], Awaitable[list[run_pb2.RunEvent]]]


class FollowedRun:
    """The events of a run, as an entry of the queue: its spans are made of them by the thread that exports."""

    def __init__(self) -> None:
        self.last_seq = 0
        self.size = 1
        self.batches: list[tuple[float, Sequence[ev.Event]]] = []
        """Events, and the time of their decision in wall seconds."""

    def add(self, step: Step, events: Sequence[ev.Event]) -> None:
        """Adds the events of the next step."""
        self.batches.append((step.time, events))
        self.last_seq = step.last_seq
        self.size += HELD * len(step.data)

    def log(self) -> RunLog:
        """Returns the log of the events."""
        log = RunLog()
        for time, events in self.batches:
            for event in events:
                log.add(event, time)
        return log

    def spans(self) -> Iterable[SpanData]:
        """Yields the spans of the run, once it has ended."""
        from archon_services.orchestrator.observability.run_spans import (
            spans_of,  # only a process that exports needs the SDK
        )

        log = self.log()
        return spans_of(log) if log.traced and log.end else ()


_UNKNOWN: Final = FollowedRun()
_UNKNOWN.last_seq = -1


class RunSpanExporter:
    """Keeps the events of the runs under way. `load_events` reads a run's events from the journal."""

    def __init__(self, journal: Journal, load_events: LoadEvents, export: Export) -> None:
        self._journal = journal
        self._load_events = load_events
        self._queue = export.queue
        self._followed: dict[str, FollowedRun | None] = {}
        """The runs under way, None for one that is not traced."""
        self._waiting: deque[str] = deque()
        self._dead: deque[str] = deque()
        self._news = asyncio.Event()
        self._loop = BackgroundLoop("spans of runs", self._read, expected=(ArchonError,))

    def start(self) -> None:
        """Begins to read the events of runs that were not followed from their beginning."""
        self._loop.start()

    async def close(self) -> None:
        """Stops; spans queued in the exporter of the process remain there. Idempotent."""
        await self._loop.close()

    def stored(self, step: Step, events: Sequence[ev.Event]) -> None:
        """A step with these events is durable."""
        if step.base == 0:
            first = events[0]
            if isinstance(first, ev.Submitted) and isinstance(goal := first.submission.goal, run_pb2.Submitted):
                if not goal.traced:
                    self._followed[step.run_id] = None
                elif self._queue.has_room():
                    self._followed[step.run_id] = FollowedRun()
        run = self._followed.get(step.run_id, _UNKNOWN)
        if run is None:
            return
        if run.last_seq == step.base:
            run.add(step, events)
            if step.ended:
                self._queue.put(run)
        elif step.ended and self._queue.has_room():
            # Not followed: it was taken over, the outcome of a step was unknown, or the exporter was stuck.
            self.ended(step.run_id)

    def left(self, run_id: str) -> None:
        """The run is not driven here any more."""
        self._followed.pop(run_id, None)

    def ended(self, run_id: str) -> None:
        """Has the spans of a run that has ended derived from the journal."""
        if len(self._waiting) >= MAX_WAITING:
            text = "the spans of run %s are not exported: %d others wait"
            _log.warning(text, run_id, MAX_WAITING, extra={"run_id": run_id})
            return
        self._waiting.append(run_id)
        self._news.set()

    def died(self, owner: str) -> None:
        """Has the spans of the runs that a replica ended last before it died derived from the journal."""
        if len(self._dead) < MAX_DEAD:
            self._dead.append(owner)
            self._news.set()

    async def _read(self) -> None:
        while True:
            self._news.clear()
            while self._dead:
                await self._recover(self._dead[0])
                self._dead.popleft()
            while self._waiting:
                await self._derive(self._waiting[0])
                self._waiting.popleft()
            self._loop.report_progress()
            await self._news.wait()

    async def _recover(self, owner: str) -> None:
        ended = [row for row in await self._journal.last_ended(MAX_RECOVERED) if row.owner == owner]
        newest = max((row.ended_at for row in ended), default=0.0)
        for row in ended:
            if row.ended_at >= newest - UNCONFIRMED:
                self.ended(row.run_id)

    async def _derive(self, run_id: str) -> None:
        run = FollowedRun()
        try:
            for event in await self._load_events(run_id):
                run.batches.append((event_time(event), (event_from_proto(event),)))
        except DataLoss as error:
            _log.warning("the spans of run %s are not exported: %s", run_id, error, extra={"run_id": run_id})
            return
        if run.batches and run.log().traced:
            self._queue.put(run)
