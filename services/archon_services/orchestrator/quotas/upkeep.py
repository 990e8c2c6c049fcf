"""Stores the daily counts of this process in the journal's database, and reads the counts of other replicas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.quotas.daily_counts import KEPT_DAYS, DailyCounts

_log = logging.getLogger(__name__)

SAVE_INTERVAL: Final = 5.0
"""Seconds between two times that changed counts are stored, and the counts of other replicas are read: a process that
is killed loses the counts of that time, and replicas together exceed a quota by their use in it."""

CLOSE_TIMEOUT: Final = 5.0
"""Seconds for the last write, when the process stops."""


class DailyCountsUpkeep:
    """Keeps `counts` in step with the journal's database. `owner` returns the incarnation of this process. A database
    that cannot be reached costs a line in the log: the counts wait in memory."""

    def __init__(self, counts: DailyCounts, journal: Journal, owner: Callable[[], str]) -> None:
        self._counts = counts
        self._journal = journal
        self._owner = owner
        self._saved_by = ""
        """The incarnation under which the counts of this process were stored last."""

        self._day = -1
        """The day whose counts were read last."""

        self._loop = BackgroundLoop("daily counts", self._run, expected=(ArchonError, TimeoutError))

    async def start(self) -> None:
        """Reads the counts of earlier processes, and keeps them in step until `close`. Call it once the incarnation has
        entered."""
        try:
            await self.read()
        except ArchonError as error:
            _log.warning("the daily counts of tenants cannot be read: %s", error)
        self._loop.start()

    async def close(self) -> None:
        """Stores the counts that have changed, while the incarnation is still live. Idempotent."""
        running = self._loop.running
        await self._loop.close()
        if running:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self.save()
            except (ArchonError, TimeoutError) as error:
                _log.warning("the last daily counts of tenants are not stored: %s", error)

    async def save(self) -> None:
        """Stores the counts that have changed. Raises the errors of the journal."""
        owner = self._owner()
        if self._saved_by not in ("", owner):  # the incarnation before has expired, and others add up its rows
            self._counts.begin_incarnation()
            self._day = -1
        self._saved_by = owner
        rows = self._counts.take_unsaved(owner)
        if not rows:
            return
        try:
            saved = await self._journal.save_daily_usage(owner, rows)
        except BaseException:
            self._counts.not_saved(rows)
            raise
        if saved:
            self._counts.saved(rows)
        else:
            self._counts.begin_incarnation()
            self._day = -1

    async def read(self) -> None:
        """Reads the counts of other replicas and of earlier processes of today; on a new day, also adds up the rows of
        those that are gone. Raises the errors of the journal."""
        day = self._counts.today
        if day != self._day:
            await self._journal.fold_daily_usage(day - KEPT_DAYS)
        self._counts.replace_others(day, await self._journal.daily_usage(day, self._owner()))
        self._day = day

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAVE_INTERVAL)
            await self.save()
            if self._journal.shared or self._day != self._counts.today:
                await self.read()
            self._loop.report_progress()
