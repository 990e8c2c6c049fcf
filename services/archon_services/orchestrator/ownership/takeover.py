"""Takes over runs without an owner: notices dead replicas, expires them, and claims their runs.

A replica is dead if its heartbeat counter does not change for a whole lease, measured by the observer's own monotonic
clock between reads of the journal that succeeded. Time in which the observer did not read, because it or the journal
had stalled, counts only in part: the other replicas may have stalled with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import ArchonError
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.journal import Journal, OwnerRow, RunRow
from archon_services.orchestrator.ownership.lease import HeldRuns, OwnershipLimits
from archon_services.orchestrator.ownership.mailbox import Mailbox

_log = logging.getLogger(__name__)

BATCH: Final = 100
"""The most runs of one claim."""

MAX_COUNTED: Final = 1_000
"""The most runs of a newer release that are counted."""


@dataclass(slots=True)
class _Observation:
    """A heartbeat counter, and for how many observed seconds it has not changed."""

    beat: int
    silent: float = 0.0


class Takeover:
    """Claims runs for `runs.owner`. `jitter` returns the seconds to wait before a claim."""

    def __init__(
        self,
        journal: Journal,
        runs: HeldRuns,
        mailbox: Mailbox,
        *,
        monotonic: Callable[[], float],
        jitter: Callable[[], float],
        limits: OwnershipLimits,
    ) -> None:
        self.patient_until = 0.0
        """No replica is expired before this time (monotonic seconds)."""
        self.newer_runs = 0
        """Runs without an owner that a newer release has written, at most MAX_COUNTED: this process cannot fold their
        events, and leaves them to a replica that can."""
        self._journal = journal
        self._runs = runs
        self._mailbox = mailbox
        self._monotonic = monotonic
        self._jitter = jitter
        self._limits = limits
        self._peers: dict[str, OwnerRow] = {}
        self._read_at = 0.0
        """When the owners were last read (monotonic seconds)."""
        self._observations: dict[str, _Observation] = {}
        self._has_warned = False

    def address_of(self, owner: str) -> str:
        """The address (host:port) of another incarnation; empty if it is not known to be alive."""
        row = self._peers.get(owner)
        return row.address if row is not None else ""

    async def watch_peers(self) -> None:
        """Scans the other replicas, without end: expires dead ones, claims runs, collects forwarded commands."""
        while True:
            before = self._monotonic()
            await asyncio.sleep(self._limits.scan_interval)
            if (late := self._monotonic() - before - self._limits.scan_interval) > self._limits.lease:
                _log.warning(
                    "this process was suspended for %.1f s; it grants the other replicas time to reconnect", late
                )
                self._start_over()
            try:
                async with asyncio.timeout(self._limits.lease):
                    await self._scan()
            except (ArchonError, TimeoutError) as error:
                self._start_over()
                _log.info("the other replicas cannot be scanned: %s", error)

    def _start_over(self) -> None:
        """Drops all observations, and grants the other replicas two leases: they may reconnect later than this one."""
        self._observations.clear()
        self.patient_until = self._monotonic() + 2 * self._limits.lease

    async def _scan(self) -> None:
        rows = await self._journal.live_owners()
        if self._runs.owner not in {row.owner for row in rows}:
            return  # expired itself, as the next heartbeat will find: it must not claim again its own runs
        self._peers = {row.owner: row for row in rows if row.owner != self._runs.owner}
        await self._expire_dead_peers()
        await self.claim()
        await self._mailbox.collect()

    async def _expire_dead_peers(self) -> None:
        now = self._monotonic()
        observed = min(now - self._read_at, self._limits.scan_interval + self._limits.scan_slip)
        self._read_at = now
        self._observations = {
            owner: observation for owner, observation in self._observations.items() if owner in self._peers
        }
        for row in self._peers.values():
            observation = self._observations.get(row.owner)
            if observation is None or observation.beat != row.beat:
                self._observations[row.owner] = _Observation(row.beat)
                continue
            observation.silent += observed
            if observation.silent < self._limits.lease or now < self.patient_until:
                continue
            if await self._journal.expire(row.owner, row.beat):
                _log.warning("expired the lease of %s: no heartbeat for %.1f s", row.owner, observation.silent)
                del self._observations[row.owner]
                self._runs.expired(row.owner)

    async def claim(self) -> int:
        """Claims all runs without an owner, as long as there is room; returns how many. Raises the errors of the
        journal."""
        claimed = 0
        while (room := min(BATCH, self._runs.room)) > 0:
            if self._journal.shared:
                await asyncio.sleep(self._jitter())
            rows = await self._journal.claim_some(self._runs.owner, room, REVISION)
            await self._take_over(rows)
            claimed += len(rows)
            if len(rows) < room:
                break
        return claimed

    async def _take_over(self, rows: Sequence[RunRow]) -> None:
        if not rows:
            return
        posted = await self._mailbox.waiting()
        for row in rows:
            if row.owner != self._runs.owner:
                continue  # claimed under a name that has expired since: any replica can claim it again
            await self._runs.take_over(row, [command for command in posted if command.run_id == row.run_id])

    async def reclaim(self) -> None:
        """Searches for own runs that this process does not hold, without end, and claims them along with runs that have
        no owner: the outcome of a run's first append may be unknown, or its driver may have failed."""
        while True:
            await asyncio.sleep(self._limits.reclaim_interval)
            try:
                await self.claim()
                await self._count_newer_runs()
                owner = self._runs.owner
                for run_id in await self._journal.open_runs(owner):
                    if self._runs.holds(run_id) or owner != self._runs.owner:
                        continue
                    row = await self._journal.claim(run_id, owner)
                    await self._take_over([row] if row is not None else [])
            except ArchonError as error:
                _log.warning("the journal cannot be searched for own runs: %s", error)

    async def _count_newer_runs(self) -> None:
        run_ids = await self._journal.newer_runs(REVISION, MAX_COUNTED)
        self.newer_runs = len(run_ids)
        if run_ids and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%d runs, run %s among them, were written by a newer release of Archon (event revision above %d); they "
                "wait for a replica of that release",
                len(run_ids),
                run_ids[0],
                REVISION,
                extra={"run_id": run_ids[0]},
            )
