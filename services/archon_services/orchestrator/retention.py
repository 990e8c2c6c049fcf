"""Retention: ended runs are compacted to their summary, and deleted later."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import DataLoss, ResourceExhausted, Unavailable
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.convert.run_view import run_to_proto
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.ports import Clock
from archon_services.orchestrator.runs.states.load import load_run

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
LEAST_INTERVAL: Final = 0.5
PAGE: Final = 100
DAY: Final = 86_400.0
CLOCK_ERROR: Final = 60.0
"""Seconds by which a time may be in the future before it counts as one of a clock that was set back since."""


class Retention:
    """Compacts and deletes runs, each so many seconds after their end. A request id outlives its run by a day. Of a run
    that ended in the future, by a clock that was set back since, the age counts from the next sweep on."""

    def __init__(self, journal: Journal, clock: Clock, *, compact_after: float = DAY, delete_after: float = 30 * DAY):
        self._journal = journal
        self._clock = clock
        self._compact_after = compact_after
        self._delete_after = delete_after
        self._loop = BackgroundLoop("retention", self._run, backoff_max=INTERVAL)

    def start(self) -> None:
        """Sweeps every minute until `close`, more often if runs are kept for less than four minutes."""
        self._loop.start()

    async def close(self) -> None:
        """Idempotent."""
        await self._loop.close()

    async def sweep(self) -> tuple[int, int]:
        """Compacts and deletes all runs that are due; returns how many of each. Skips runs that cannot be loaded."""
        now, compacted = self._clock.now(), 0
        await self._journal.bound_times(now + CLOCK_ERROR)
        unreadable: set[str] = set()
        while True:
            limit = PAGE + len(unreadable)
            due = await self._journal.compactable(now - self._compact_after, limit, revision=REVISION)
            for run_id in due:
                if run_id in unreadable:
                    continue
                try:
                    summary = run_to_proto(await load_run(self._journal, run_id))
                except (Unavailable, ResourceExhausted):
                    raise  # the journal's error, not the run's
                except Exception as error:  # noqa: BLE001 - an error in one run concerns no other
                    _log.error(
                        "run %s cannot be loaded and is not compacted: %s", run_id, error, extra={"run_id": run_id}
                    )
                    unreadable.add(run_id)
                    continue
                compacted += await self._compact(run_id, summary.SerializeToString(), unreadable)
            if len(due) < limit:
                break
        return compacted, await self._journal.delete(now - self._delete_after, now, DAY)

    async def _compact(self, run_id: str, summary: bytes, unreadable: set[str]) -> bool:
        try:
            await self._journal.compact(run_id, summary)
        except DataLoss as error:
            _log.error("run %s cannot be compacted: %s", run_id, error, extra={"run_id": run_id})
            unreadable.add(run_id)
            return False
        return True

    async def _run(self) -> None:
        shortest = min(self._compact_after, self._delete_after)
        interval = max(LEAST_INTERVAL, min(INTERVAL, shortest / 4))
        while True:
            await self.sweep()
            self._loop.report_progress()
            await asyncio.sleep(interval)
