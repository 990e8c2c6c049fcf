"""Hands the spans of runs to the exporter of the process, once a run has ended.

The spans of a run are exported by the replica that ended it, from the events that it has stored; if it did not store
all of them itself, it reads them from the journal. The runs that a replica ended right before its death are exported
by the one that expires it: some may be exported twice then, with the same ids, times and attributes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from archon.api.orchestrator.v1 import run_pb2
from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss
from archon.telemetry.export import Export
from archon_mesh.core.run import events as ev
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.journal import Journal, Step
from archon_services.orchestrator.tracing.run_log import RunLog

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

_log = logging.getLogger(__name__)

MAX_WAITING: Final = 1_000
"""Runs whose events are still to be read from the journal; further ones are not exported."""

UNCONFIRMED: Final = 5.0
"""Seconds of work whose spans a replica that died may not have exported."""

MAX_DEAD: Final = 64
"""Replicas that died and whose last runs are still to be looked for."""

MAX_RECOVERED: Final = 1_000
"""Runs of a dead replica that are looked at."""

LoadEvents = Callable[[str], Awaitable[list[run_pb2.RunEvent]]]


class RunSpanExporter:
    """Keeps the logs of the runs under way. `load_events` reads a run's events from the journal."""

    def __init__(self, journal: Journal, load_events: LoadEvents, export: Export) -> None:
        self._journal = journal
        self._load_events = load_events
        self._processor = export.processor
        self._resource: Resource = export.provider.resource
        self._logs: dict[str, RunLog] = {}
        self._waiting: deque[str] = deque()
        self._dead: deque[str] = deque()
        self._news = asyncio.Event()
        self._loop = BackgroundLoop("spans of runs", self._read, expected=(ArchonError,))

    def start(self) -> None:
        """Begins to read the events of runs that were not followed from their beginning."""
        self._loop.start()

    async def close(self) -> None:
        """Stops; what is queued in the exporter of the process remains there. Idempotent."""
        await self._loop.close()

    def stored(self, step: Step, events: Sequence[ev.Event]) -> None:
        """A step with these events is durable."""
        log = self._logs.get(step.run_id)
        if log is None and step.base == 0:
            log = self._logs[step.run_id] = RunLog()
        elif log is not None and log.submission is not None and not log.traced:
            return
        if log is not None and log.last_seq == step.base:
            for event in events:
                log.add(event, step.time)
            if log.end and log.traced:
                self._export(log)
        elif step.ended:  # it was taken over, or the outcome of one of its steps was unknown
            self.ended(step.run_id)

    def left(self, run_id: str) -> None:
        """The run is not driven here any more."""
        self._logs.pop(run_id, None)

    def ended(self, run_id: str) -> None:
        """Has the spans of a run that has ended derived from the journal."""
        if len(self._waiting) >= MAX_WAITING:
            _log.warning("the spans of run %s are not exported: %d others wait", run_id, MAX_WAITING)
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
        log = RunLog()
        try:
            for event in await self._load_events(run_id):
                log.add(event_from_proto(event), event_time(event))
        except DataLoss as error:
            _log.warning("the spans of run %s are not exported: %s", run_id, error)
            return
        if log.traced and log.end:
            self._export(log)

    def _export(self, log: RunLog) -> None:
        from archon_services.orchestrator.tracing.otel_spans import spans_of

        for span in spans_of(log, self._resource):
            self._processor.on_end(span)
