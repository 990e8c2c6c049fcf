"""Stores the tallies of this process in the journal's database, and reads the tallies of other replicas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError
from archon_services.orchestrator.journal import Journal, TrackRecordRow
from archon_services.orchestrator.track_records.records import Subject, TrackRecords
from archon_services.orchestrator.track_records.tally import Tally, decode, merged

_log = logging.getLogger(__name__)

SAVE_INTERVAL: Final = 5.0
"""Seconds between two times that changed tallies are stored: a process that is killed loses the observations of that
time."""

READ_INTERVAL: Final = 30.0
"""Seconds between two times that the tallies of other replicas are read."""

UPDATE_INTERVAL: Final = 1.0
"""Seconds between two times that placement gets new factors."""

CLOSE_TIMEOUT: Final = 5.0
"""Seconds for the last write, when the process stops."""


class TrackRecordUpkeep:
    """Keeps `records` in step with the journal's database. `owner` returns the incarnation of this process; `updated`
    is called when tallies may have changed. A database that cannot be reached costs a line in the log: the tallies
    wait in memory."""

    def __init__(
        self,
        records: TrackRecords,
        journal: Journal,
        owner: Callable[[], str],
        updated: Callable[[], None] = lambda: None,
    ) -> None:
        self._records = records
        self._journal = journal
        self._owner = owner
        self._saved_by = ""
        """The incarnation under which the tallies of this process were stored last."""

        self._updated = updated
        self._loop = BackgroundLoop("track records", self._run, expected=(ArchonError, TimeoutError))

    async def start(self) -> None:
        """Reads the tallies of earlier processes, and keeps them in step until `close`. Call it once the incarnation
        has entered."""
        try:
            await self._journal.fold_track_records(merged)
            await self.read()
        except ArchonError as error:
            _log.warning("the track records of instances cannot be read: %s", error)
        self._update()
        self._loop.start()

    async def close(self) -> None:
        """Stores the tallies that have changed, while the incarnation is still live. Idempotent."""
        running = self._loop.running
        await self._loop.close()
        if running:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self.save()
            except (ArchonError, TimeoutError) as error:
                _log.warning("the last track records of instances are not stored: %s", error)

    async def save(self) -> None:
        """Stores the tallies that have changed. Raises the errors of the journal."""
        owner = self._owner()
        if self._saved_by not in ("", owner):  # the incarnation before has expired, and others add up its rows
            self._records.forget_own()
        self._saved_by = owner
        unsaved = self._records.take_unsaved()
        if not unsaved:
            return
        rows = [TrackRecordRow(owner, *subject, tally.time, tally.encode()) for subject, tally in unsaved.items()]
        try:
            saved = await self._journal.save_track_records(owner, rows)
        except BaseException:
            self._records.not_saved(unsaved)
            raise
        if not saved:
            self._records.forget_own()

    async def read(self) -> None:
        """Reads the tallies of other replicas and of earlier processes. Raises the errors of the journal."""
        found: list[tuple[Subject, Tally]] = []
        for row in await self._journal.track_records(self._owner()):
            try:
                found.append((Subject(row.tenant, row.role, row.instance_id), decode(row.data)))
            except (ValueError, TypeError) as error:
                _log.warning("the track record of %s %s cannot be read: %s", row.role, row.instance_id, error)
        self._records.replace_others(found)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        saved_at = read_at = loop.time()
        while True:
            await asyncio.sleep(UPDATE_INTERVAL)
            self._update()
            if loop.time() - saved_at >= SAVE_INTERVAL:
                await self.save()
                saved_at = loop.time()
            if self._journal.shared and loop.time() - read_at >= READ_INTERVAL:
                await self.read()
                read_at = loop.time()
            self._loop.report_progress()

    def _update(self) -> None:
        self._records.settle()
        self._updated()
