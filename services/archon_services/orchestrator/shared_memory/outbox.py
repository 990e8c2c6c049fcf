"""Publishes answers from the journal's outbox in the shared memory. No run waits for the memory service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from archon import context
from archon.api.memory.v1 import memory_pb2
from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss, DeadlineExceeded, Internal, ResourceExhausted, Unavailable
from archon.memory import MemoryGraphClient
from archon.telemetry import metrics
from archon.telemetry.spans import without_client_spans
from archon.wire import described, to_seconds
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import Journal, OutboxRow
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.tracing.context import calls_for

_log = logging.getLogger(__name__)

MAX_BACKOFF: Final = 5.0
PAGE: Final = 100
"""Publications that are read at a time."""

PUBLISH_TIMEOUT: Final = 5.0
MAX_KEEP: Final = 3650 * 86_400
_TRANSIENT: Final = (Unavailable, DeadlineExceeded, ResourceExhausted, Internal)
"""Errors after which a publication is tried again; any other error is final."""


class OutboxPublisher:
    """A background loop that publishes what the outbox holds; `wake` tells it of new rows.

    `keep` is how long, in seconds, the shared memory keeps answers that were published in no session: their run is
    deleted from the journal by then."""

    def __init__(self, journal: Journal, runs: Runs, target: str, *, keep: float) -> None:
        self._journal = journal
        self._runs = runs
        self._client = MemoryGraphClient(target)
        self._keep = max(1, min(int(keep), MAX_KEEP))
        self._news = asyncio.Event()
        self._measured = metrics.recorder() is not None
        self._oldest = 0.0
        """Wall seconds of the publication that is published next, 0 if there is none, or nothing is measured."""

        self.pending = 0
        """The publications in the outbox; those that an earlier process left count as 100 at most until they are
        read."""
        self._loop = BackgroundLoop("outbox", self._run, backoff_max=MAX_BACKOFF, expected=_TRANSIENT)

    def start(self) -> None:
        """Starts with what an earlier process left in the outbox."""
        self._loop.start()

    def wake(self, added: int = 0) -> None:
        """Has the loop look into the outbox, to which so many publications were added."""
        self.pending += added
        self._news.set()

    def age(self, now: float) -> float:
        """Returns the age of the oldest publication in seconds, 0 if there is none; `now` is in wall seconds."""
        oldest = self._oldest
        return max(0.0, now - oldest) if oldest else 0.0

    async def close(self) -> None:
        """Stops; unpublished answers stay in the outbox. Idempotent."""
        await self._loop.close()
        await self._client.close()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            while rows := await self._journal.outbox(self._runs.owner, PAGE):
                self.pending = len(rows) if len(rows) < PAGE else max(self.pending, PAGE)
                for row in rows:
                    if self._measured:
                        self._oldest = _time_of(row) or self._oldest
                    await self._publish(row)
                    self.pending -= 1
            self.pending, self._oldest = 0, 0.0
            self._loop.report_progress()
            await self._news.wait()

    async def _publish(self, row: OutboxRow) -> None:
        publication = row.publication
        try:
            item = _item(row)
        except DataLoss as error:  # it will never be readable: the other answers are not to wait for it
            _log.error(
                "event %d of run %s is not published: %s", publication.seq, row.run_id, error, extra=_fields(row)
            )
            await self._journal.published([row.row_id])
            return
        if publication.scope == row.run_id:
            item.ttl.seconds = self._keep
        try:
            with self._within_trace(row):
                published = await self._client.publish_items([item], scope=publication.scope, timeout=PUBLISH_TIMEOUT)
        except _TRANSIENT:
            raise
        except ArchonError as error:
            _log.error(
                "the shared memory refuses event %d of run %s: %s",
                publication.seq,
                row.run_id,
                error,
                extra=_fields(row),
            )
        else:
            given = inp.PublishedIn(publication.task_id, publication.seq, published[0].version)
            self._runs.deliver(row.run_id, Delivery(given, quiet=True))
        await self._journal.published([row.row_id])

    @contextmanager
    def _within_trace(self, row: OutboxRow) -> Iterator[None]:
        """Has calls join the trace of the run, below the attempt that published, while the run is known here. They have
        no span here: it would be lost if this process died, and what is below it with it."""
        run = self._runs.held(row.run_id)
        task = run.tasks.get(row.publication.task_id) if run is not None else None
        call = calls_for(run, task) if run is not None and task is not None else context.CallContext()
        with context.serving(call), without_client_spans():
            yield


def _time_of(row: OutboxRow) -> float:
    """Returns when the answer or item was stored, in wall seconds; 0 if the step cannot be read."""
    if row.damage is not None or row.content is not None:
        return 0.0
    try:
        times = [event.time for event in events_of(row.data, row.run_id) if event.seq == row.publication.seq]
    except DataLoss:
        return 0.0
    return to_seconds(times[0]) if times else 0.0


def _fields(row: OutboxRow) -> dict[str, str]:
    """Returns the fields of a log line about an answer."""
    return {"run_id": row.run_id, "task_id": row.publication.task_id}


def _item(row: OutboxRow) -> memory_pb2.PublishItem:
    """Returns what to publish of the event that the row names: the text of an answer, or an item. Raises DataLoss if
    the step cannot be read."""
    if row.damage is not None:
        raise row.damage
    publication = row.publication
    item = memory_pb2.PublishItem(
        role=publication.role,
        content=row.content or "",
        run_id=row.run_id,
        epoch=row.epoch,
        seq=publication.seq,
        task_id=publication.task_id,
    )
    for event in events_of(row.data, row.run_id) if row.content is None else ():
        if event.seq == publication.seq and event.HasField("item_published"):
            published = event.item_published
            item.content, item.policy = described(published.parts), published.policy
            item.metadata.update(published.metadata)
        elif event.seq == publication.seq:
            item.content = described(event.result.output)
    return item
