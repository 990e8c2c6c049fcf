"""The lease of this process: its incarnation enters the journal, renews itself by heartbeats, and leaves.

Only the monotonic clock of this process counts, and only between two calls to the journal that succeeded. Therefore
neither a jump of a clock nor an outage of the journal expires a lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from archon.errors import ArchonError
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.journal import CommandRow, Journal, OwnerRow, RunRow

_log = logging.getLogger(__name__)

LEASE: Final = 3.0
"""The default lease in seconds."""


@dataclass(frozen=True, slots=True)
class OwnershipLimits:
    """Times in seconds. The defaults are `of_lease(LEASE)`."""

    lease: float = LEASE
    """Without a heartbeat for this long, the other replicas expire an incarnation."""
    heartbeat_interval: float = 1.0
    heartbeat_timeout: float = 2.0
    heartbeat_retry: float = 0.25
    """The pause after a heartbeat that failed."""
    send_margin: float = 0.5
    """This long before the end of the lease, no more frames about tasks are sent."""
    scan_interval: float = 0.25
    """The pause between two scans of the other replicas, the runs without an owner and the forwarded commands."""
    scan_slip: float = 0.5
    """Of the time between two scans, no more than the interval and this counts as silence of another replica."""
    reclaim_interval: float = 5.0
    """The pause between two searches for own runs that this process does not hold."""
    claim_jitter: float = 0.1
    """The longest random pause before a claim, so that replicas do not claim all at once."""

    @classmethod
    def of_lease(cls, lease: float) -> OwnershipLimits:
        """All times in proportion to the lease, except for the jitter of claims."""
        return cls(
            lease=lease,
            heartbeat_interval=lease / 3,
            heartbeat_timeout=lease * 2 / 3,
            heartbeat_retry=lease / 12,
            send_margin=lease / 6,
            scan_interval=lease / 12,
            scan_slip=lease / 6,
            reclaim_interval=lease * 5 / 3,
        )


class HeldRuns(Protocol):
    """The runs that this process drives. `owner` is its incarnation."""

    owner: str

    @property
    def room(self) -> int:
        """How many more runs the process can drive."""
        ...

    def holds(self, run_id: str) -> bool: ...

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow]) -> None:
        """Drives a run that was just claimed, first with the commands that wait for it."""
        ...

    def expired(self, owner: str) -> None:
        """Another replica has died: its lease has just been expired."""
        ...

    def command(self, row: CommandRow) -> None:
        """Passes a command to its run. The same command may be passed repeatedly."""
        ...

    def release_all(self) -> None:
        """Stops driving all runs, since others own them now, without a word to agents."""
        ...


class Lease:
    """The incarnation `runs.owner`. `address` (host:port) is where other replicas reach this process.

    A journal that is not shared has no other replicas: then there are no heartbeats, and the lease never ends.
    """

    def __init__(
        self,
        journal: Journal,
        runs: HeldRuns,
        *,
        new_owner: Callable[[], str],
        monotonic: Callable[[], float],
        limits: OwnershipLimits,
        address: str = "",
    ) -> None:
        """`new_owner` returns the name of a new incarnation."""
        self.address = address
        self._journal = journal
        self._runs = runs
        self._new_owner = new_owner
        self._monotonic = monotonic
        self._limits = limits
        self._end = 0.0

    def may_send(self) -> bool:
        """Whether frames about tasks may be sent: the lease is valid for at least the margin."""
        return not self._journal.shared or self._monotonic() < self._end - self._limits.send_margin

    @property
    def remaining(self) -> float | None:
        """Seconds until the lease ends, 0 after its end; None for a lease that never ends."""
        return max(0.0, self._end - self._monotonic()) if self._journal.shared else None

    async def enter(self, owner: str) -> None:
        """Enters the journal as a new incarnation. Raises the errors of the journal."""
        sent = self._monotonic()
        await self._journal.enter(OwnerRow(owner, self.address, REVISION, 0))
        self._runs.owner, self._end = owner, sent + self._limits.lease

    async def leave(self) -> None:
        """Ends the incarnation: other replicas can claim its runs at once."""
        try:
            async with asyncio.timeout(self._limits.lease):
                await self._journal.leave(self._runs.owner)
        except (ArchonError, TimeoutError) as error:
            _log.info("left without notice to the journal: %s", error)

    async def keep(self) -> None:
        """Sends heartbeats, without end. An expired incarnation releases all runs and enters again under a new name."""
        pause = self._limits.heartbeat_interval
        while True:
            await asyncio.sleep(pause)
            sent, pause = self._monotonic(), self._limits.heartbeat_interval
            try:
                async with asyncio.timeout(self._limits.heartbeat_timeout):
                    alive = await self._journal.beat(self._runs.owner, self.address)
                if alive:
                    self._end = sent + self._limits.lease  # counted from before the renewal was sent
                    continue
                _log.warning("the lease of %s has expired; other replicas own its runs", self._runs.owner)
                await self.enter(self._new_owner())
                self._runs.release_all()  # including runs accepted under the old name until now
            except (ArchonError, TimeoutError) as error:
                _log.warning("the lease could not be renewed: %s", error)
                pause = self._limits.heartbeat_retry
