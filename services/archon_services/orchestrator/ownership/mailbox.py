"""Commands for runs of this process that other replicas have received and left in the journal."""

from __future__ import annotations

import asyncio
import logging

from archon.errors import ArchonError, DataLoss
from archon_services.orchestrator.convert.command import decode_command
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.journal import CommandRow, Journal
from archon_services.orchestrator.ownership.lease import HeldRuns, OwnershipLimits

_log = logging.getLogger(__name__)


class Mailbox:
    """Passes forwarded commands to their runs, when it is notified of one and whenever `collect` is called."""

    def __init__(self, journal: Journal, runs: HeldRuns, limits: OwnershipLimits) -> None:
        self._journal = journal
        self._runs = runs
        self._limits = limits
        self._open = False
        self._collecting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on the journal's notifications are handled, until `stop`."""
        self._open = True
        self._journal.listen(self._notified)

    async def stop(self) -> None:
        """Takes no further commands, and waits for the collection in progress. Idempotent."""
        self._open = False
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.wait([self._collecting])

    async def collect(self) -> None:
        """Passes all waiting commands to the runs that this process holds, and drops those for runs that have ended.
        Raises the errors of the journal."""
        for command in await self.waiting():
            if self._runs.holds(command.run_id):
                self._runs.command(command)
            elif (run := await self._journal.run(command.run_id)) is None or run.ended_at:
                await self._journal.drop([command.row_id])

    async def waiting(self) -> list[CommandRow]:
        """Returns the commands for runs of this process. Drops those that cannot be decoded: no replica could execute
        them, and they would keep the others waiting. While a replica of a newer release is alive they are left for it:
        it takes the run over once this process is upgraded. Raises the errors of the journal."""
        commands: list[CommandRow] = []
        is_newest: bool | None = None
        for command in await self._journal.posted(self._runs.owner):
            try:
                decode_command(command.data, command.run_id)
            except DataLoss as error:
                if is_newest is None:
                    is_newest = all(row.revision <= REVISION for row in await self._journal.live_owners())
                if not is_newest:
                    continue
                _log.error("a command is dropped: %s", error)
                await self._journal.drop([command.row_id])
            else:
                commands.append(command)
        return commands

    def _notified(self, owner: str) -> None:
        # A notification that comes during a collection is not handled; the next scan finds its command.
        if owner == self._runs.owner and self._open and (self._collecting is None or self._collecting.done()):
            self._collecting = asyncio.create_task(self._collect_now(), name="commands")

    async def _collect_now(self) -> None:
        try:
            async with asyncio.timeout(self._limits.lease):
                await self.collect()
        except (ArchonError, TimeoutError) as error:
            _log.info("forwarded commands cannot be read: %s", error)
        except Exception:  # noqa: BLE001 - the next scan finds the commands again
            _log.exception("forwarded commands cannot be read; the next scan tries again")
