"""Bounds the journal: ended runs are compacted to their summary, later deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_services.orchestrator.api.render import run_to_proto
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.ports import Clock
from archon_services.orchestrator.runs.load import load_run

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
LEAST_INTERVAL: Final = 0.5
PAGE: Final = 100
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
        """Sweeps every minute until `close`; more often where runs are kept for less."""
        self._task = asyncio.create_task(self._run(), name="retention")

    async def close(self) -> None:
        """Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)

    async def sweep(self) -> tuple[int, int]:
        """(compacted, deleted) just now: all that is due, however many. A run that can't be read is passed over."""
        now, compacted = self._clock.now(), 0
        unreadable: set[str] = set()
        while True:
            limit = PAGE + len(unreadable)
            due = await self._journal.compactable(now - self._compact_after, limit)
            for run_id in due:
                if run_id in unreadable:
                    continue
                try:
                    summary = run_to_proto(await load_run(self._journal, run_id))
                except (Unavailable, ResourceExhausted):
                    raise  # it is the journal, not the run
                except Exception as error:  # noqa: BLE001 - whatever is wrong with one run, the others go on
                    _log.error("run %s can't be read and isn't compacted: %s", run_id, error)
                    unreadable.add(run_id)
                    continue
                await self._journal.compact(run_id, summary.SerializeToString())
                compacted += 1
            if len(due) < limit:
                break
        return compacted, await self._journal.delete(now - self._delete_after, now, DAY)

    async def _run(self) -> None:
        shortest = min(self._compact_after, self._delete_after)
        interval = max(LEAST_INTERVAL, min(INTERVAL, shortest / 4))
        while True:
            try:
                await self.sweep()
            except ArchonError as error:
                _log.warning("the journal can't be swept now: %s", error)
            await asyncio.sleep(interval)
