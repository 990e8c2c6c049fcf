"""The limits of ownership follow from the lease, and hold for shorter leases too. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.journal import CommandRow, MemoryJournal, RunRow
from archon_services.orchestrator.ownership import Ownership, OwnershipLimits
from archon_services.orchestrator.ownership.lease import LEASE
from tests.fixtures.journal import commit, new_run, step_of
from tests.fixtures.virtual_time import pass_time
from tests.simulation.loop import run_virtual


class Runs:
    """Holds runs and does nothing with them."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.room = 100
        self.held: set[str] = set()
        self.commands: list[bytes] = []

    def holds(self, run_id: str) -> bool:
        return run_id in self.held

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow]) -> None:
        self.held.add(row.run_id)

    def command(self, row: CommandRow) -> None:
        self.commands.append(row.data)

    def expired(self, owner: str) -> None:
        """Another replica has died."""

    def release_all(self) -> None:
        self.held.clear()


def ownership(journal: MemoryJournal, runs: Runs, limits: OwnershipLimits) -> Ownership:
    return Ownership(
        journal,
        runs,
        new_owner=lambda: f"{runs.owner}+",
        monotonic=lambda: asyncio.get_running_loop().time(),
        jitter=lambda: 0.0,
        limits=limits,
    )


async def submit(journal: MemoryJournal, owner: str, run_id: str) -> None:
    await commit(journal, step_of(run_id, 0, [b"e"], new=new_run(run_id, owner=owner)))


def test_the_default_limits_follow_from_the_lease() -> None:
    assert OwnershipLimits() == OwnershipLimits.of_lease(LEASE)


def test_a_short_lease_is_taken_over_soon() -> None:
    async def course() -> None:
        journal, limits = MemoryJournal(shared=True), OwnershipLimits.of_lease(0.3)
        first, second = Runs("first"), Runs("second")
        owning = [ownership(journal, runs, limits) for runs in (first, second)]
        for each in owning:
            await each.start()
        await submit(journal, "first", "r")
        first.held.add("r")
        await pass_time(3.0)
        assert not second.held, "its heartbeats continue"
        assert all(each.may_send() for each in owning)
        await owning[0].stop()  # kill -9
        await pass_time(0.15)
        assert not second.held
        await pass_time(0.35)
        assert second.held == {"r"}
        assert not owning[0].may_send()
        await owning[1].stop()

    run_virtual(course())


def test_an_own_run_that_is_not_held_is_reclaimed() -> None:
    async def course() -> None:
        journal, runs = MemoryJournal(), Runs("only")
        owning = ownership(journal, runs, OwnershipLimits(reclaim_interval=2.0))
        await owning.start()
        await submit(journal, "only", "r")
        await pass_time(1.9)
        assert not runs.held
        await pass_time(0.2)
        assert runs.held == {"r"}
        assert owning.may_send(), "without other replicas the lease never ends"
        await owning.stop()

    run_virtual(course())


def test_a_notified_command_does_not_wait_for_a_scan() -> None:
    async def course() -> None:
        journal, runs = MemoryJournal(shared=True), Runs("only")
        owning = ownership(journal, runs, OwnershipLimits(scan_interval=60.0))
        await owning.start()
        await submit(journal, "only", "r")
        runs.held.add("r")
        cancel = encode_command(inp.Cancel("caller", "enough"), 1.0)
        await journal.post("r", cancel)
        owning._mailbox._notified("another")
        await pass_time(0.1)
        assert runs.commands == []
        owning._mailbox._notified("only")
        await pass_time(0.1)
        assert runs.commands == [cancel]
        await owning.stop()
        owning._mailbox._notified("only")
        await pass_time(0.1)
        assert runs.commands == [cancel], "not after it was stopped"

    run_virtual(course())
