"""Ownership of runs as one unit: runs the background loops of lease, takeover and mailbox."""

from __future__ import annotations

import random
from collections.abc import Callable

from archon.background import BackgroundLoop
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.ownership.lease import HeldRuns, Lease, OwnershipLimits
from archon_services.orchestrator.ownership.mailbox import Mailbox
from archon_services.orchestrator.ownership.takeover import Takeover


class Ownership:
    """The ownership of `runs`, from `start` to `leave`.

    A journal that is not shared has no other replicas: then only own runs that are not held are searched for.
    """

    def __init__(
        self,
        journal: Journal,
        runs: HeldRuns,
        *,
        new_owner: Callable[[], str],
        monotonic: Callable[[], float],
        jitter: Callable[[], float] | None = None,
        address: str = "",
        limits: OwnershipLimits | None = None,
    ) -> None:
        """`new_owner` returns the name of a new incarnation, `jitter` the seconds to wait before a claim (default:
        random), `address` (host:port) is where other replicas reach this process."""
        limits = limits or OwnershipLimits()
        self._shared = journal.shared
        self._runs = runs
        self._lease = Lease(journal, runs, new_owner=new_owner, monotonic=monotonic, limits=limits, address=address)
        self._mailbox = Mailbox(journal, runs, limits)
        self.takeover = Takeover(
            journal,
            runs,
            self._mailbox,
            monotonic=monotonic,
            jitter=jitter or (lambda: random.uniform(0, limits.claim_jitter)),
            limits=limits,
        )
        self._loops: list[BackgroundLoop] = []

    @property
    def address(self) -> str:
        """Where other replicas reach this process (host:port)."""
        return self._lease.address

    @address.setter
    def address(self, address: str) -> None:
        self._lease.address = address

    def may_send(self) -> bool:
        """Whether frames about tasks may be sent: the lease is valid for at least the margin."""
        return self._lease.may_send()

    @property
    def lease_remaining(self) -> float | None:
        """Seconds until the lease ends, 0 after its end; None if it never ends."""
        return self._lease.remaining

    def address_of(self, owner: str) -> str:
        """The address (host:port) of another incarnation; empty if it is not known to be alive."""
        return self.takeover.address_of(owner)

    async def start(self) -> int:
        """Enters the journal, claims the runs without an owner and starts the loops. Returns the number of runs. Raises
        the errors of the journal."""
        await self._lease.enter(self._runs.owner)
        claimed = await self.takeover.claim()
        bodies = {"reclaim runs": self.takeover.reclaim}
        if self._shared:
            bodies |= {"keep the lease": self._lease.keep, "watch peers": self.takeover.watch_peers}
            self._mailbox.start()
        self._loops = [BackgroundLoop(name, body, backoff_max=1.0) for name, body in bodies.items()]
        for loop in self._loops:
            loop.start()
        return claimed

    async def stop(self) -> None:
        """Ends the loops without a change to any run. Idempotent."""
        for loop in self._loops:
            await loop.close()
        self._loops = []
        await self._mailbox.stop()

    async def leave(self) -> None:
        """Gives up all runs, after this process has stopped driving them: others can claim them at once."""
        await self._lease.leave()
