"""Feeds the shared memory out of the journal's outbox. The memory service may be down: no run waits for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.api.memory.v1 import memory_pb2
from archon.errors import ArchonError, DeadlineExceeded, Internal, ResourceExhausted, Unavailable
from archon.memory import MemoryGraphClient
from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import Journal, OutboxRow
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.step import text_of

_log = logging.getLogger(__name__)

MAX_BACKOFF: Final = 5.0
PUBLISH_TIMEOUT: Final = 5.0
MAX_KEEP: Final = 3650 * 86_400


class OutboxPublisher:
    """One background loop; `wake` after an append that has something to publish. `keep`: seconds after which the shared
    memory forgets what was published in no session: its run is gone from the journal then, and nobody asks for it."""

    def __init__(self, journal: Journal, runs: Runs, target: str, *, keep: float) -> None:
        self._journal = journal
        self._runs = runs
        self._client = MemoryGraphClient(target)
        self._keep = max(1, min(int(keep), MAX_KEEP))
        self._wake = asyncio.Event()
        self._wake.set()  # what an earlier process left
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins with what an earlier process left."""
        self._task = asyncio.create_task(self._run(), name="publisher")

    def wake(self) -> None:
        """There is something new."""
        self._wake.set()

    async def close(self) -> None:
        """Stops; what isn't published yet stays in the outbox. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)
        await self._client.close()

    async def _run(self) -> None:
        backoff = 0.1
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while rows := await self._journal.outbox(self._runs.owner):
                    for row in rows:
                        await self._publish(row)
                backoff = 0.1
            except (Unavailable, DeadlineExceeded, ResourceExhausted, Internal) as error:
                _log.info("the shared memory can't be fed now, trying again in %.1f s: %s", backoff, error)
                await asyncio.sleep(backoff)
                backoff = min(MAX_BACKOFF, backoff * 2)
                self._wake.set()

    async def _publish(self, row: OutboxRow) -> None:
        publication = row.publication
        item = memory_pb2.PublishItem(
            role=publication.role, content=_text(row), run_id=row.run_id, epoch=row.epoch, seq=publication.seq
        )
        if publication.scope == row.run_id:
            item.ttl.seconds = self._keep
        try:
            published = await self._client.publish_items([item], scope=publication.scope, timeout=PUBLISH_TIMEOUT)
        except (Unavailable, DeadlineExceeded, ResourceExhausted, Internal):
            raise
        except ArchonError as error:
            _log.error("the shared memory refuses event %d of run %s: %s", publication.seq, row.run_id, error)
        else:
            given = inp.PublishedIn(publication.task_id, publication.seq, published[0].version)
            self._runs.deliver(row.run_id, Delivery(given, quiet=True))
        await self._journal.published([row.row_id])


def _text(row: OutboxRow) -> str:
    """Returns the text of the result event that the row names. Raises DataLoss if the step can't be decoded."""
    if row.content is not None:
        return row.content
    for event in events_of(row.data, row.run_id):
        if event.seq == row.publication.seq:
            return text_of(event.result.output)
    return ""
