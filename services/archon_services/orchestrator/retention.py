"""Bounds the journal: ended runs are compacted to their summary, later deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.errors import ArchonError
from archon_services.orchestrator.driver import fold_run
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.ports import Clock
from archon_services.orchestrator.summary import run_to_proto

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
DAY: Final = 86_400.0


class Retention:
    """Seconds after the end of a run. A request id outlives its run by a day."""

    def __init__(self, journal: Journal, clock: Clock, *, compact_after: float = DAY, delete_after: float = 30 * DAY):
        self._journal = journal
        self._clock = clock
        self._compact_after = compact_after
        self._delete_after = delete_after
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Sweeps every minute until `close`."""
        self._task = asyncio.create_task(self._run(), name="retention")

    async def close(self) -> None:
        """Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)

    async def sweep(self) -> tuple[int, int]:
        """(compacted, deleted) just now."""
        now, compacted = self._clock.now(), 0
        for run_id in await self._journal.compactable(now - self._compact_after):
            summary = run_to_proto(await fold_run(self._journal, run_id))
            await self._journal.compact(run_id, summary.SerializeToString())
            compacted += 1
        return compacted, await self._journal.delete(now - self._delete_after, now, DAY)

    async def _run(self) -> None:
        while True:
            try:
                await self.sweep()
            except ArchonError as error:
                _log.warning("the journal can't be swept now: %s", error)
            await asyncio.sleep(INTERVAL)
