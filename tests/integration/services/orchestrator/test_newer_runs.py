"""Runs that a newer release wrote: a replica of this one leaves them alone, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.clock import monotonic
from archon.errors import Unavailable
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.journal import MemoryJournal, OwnerRow
from archon_services.orchestrator.ownership import Ownership, OwnershipLimits
from archon_services.orchestrator.ownership.mailbox import Mailbox
from archon_services.orchestrator.ports import SystemClock
from archon_services.orchestrator.retention import Retention
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from tests.fixtures.journal import commit, new_run, step_of
from tests.fixtures.orchestrating import commands_of
from tests.fixtures.waiting import until

RUN_ID = "r1"


class CountingJournal(MemoryJournal):
    """Counts the searches for newer runs."""

    searches = 0

    async def newer_runs(self, revision: int, limit: int) -> list[str]:
        self.searches += 1
        return await super().newer_runs(revision, limit)


@pytest.fixture
async def runs(journal: CountingJournal) -> AsyncIterator[Runs]:
    runs = Runs(owner="own", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    yield runs
    await runs.stop()


@pytest.fixture
def journal() -> CountingJournal:
    return CountingJournal(shared=True)


async def write(journal: MemoryJournal, *, ended: bool) -> None:
    """Stores a run of the next revision: its event is of a kind that this release does not know."""
    event = run_pb2.RunEvent(run_id=RUN_ID, seq=1).SerializeToString()
    new = new_run(RUN_ID, owner="newer", revision=REVISION + 1)
    await commit(journal, step_of(RUN_ID, 0, [event], new=new, ended=ended, state=3 if ended else 2))


async def test_durability_7_a_newer_run_without_an_owner_is_left_and_reported_once(
    journal: CountingJournal, runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    await write(journal, ended=False)
    ownership = Ownership(
        journal,
        runs,
        new_owner=lambda: "other",
        monotonic=monotonic,
        limits=OwnershipLimits(reclaim_interval=0.01),
    )
    try:
        assert await ownership.start() == 0
        await until(lambda: journal.searches >= 3)
        assert ownership.takeover.newer_runs == 1
    finally:
        await ownership.stop()
    row = await journal.run(RUN_ID)
    assert row is not None and (row.owner, row.epoch, row.ended_at) == ("newer", 1, 0)
    assert caplog.text.count("1 runs, run r1 among them, were written by a newer release of Archon") == 1


@pytest.mark.parametrize("ended", [False, True])
async def test_durability_7_reading_a_newer_run_asks_for_a_replica_of_its_release(
    journal: CountingJournal, runs: Runs, ended: bool
) -> None:
    await write(journal, ended=ended)
    roles = RegistryWatch("127.0.0.1:1", lambda instances, removed: None)
    with pytest.raises(Unavailable, match="ask a replica of that release"):
        await commands_of(runs, journal, roles).run(RUN_ID)
    await roles.close()


async def test_durability_7_a_newer_run_is_not_compacted(
    journal: CountingJournal, caplog: pytest.LogCaptureFixture
) -> None:
    await write(journal, ended=True)
    assert await Retention(journal, SystemClock(5_000.0), compact_after=1.0).sweep() == (0, 0)
    assert "cannot be loaded" not in caplog.text


@pytest.mark.parametrize("newer", [False, True])
async def test_durability_13_a_command_of_a_newer_form_is_left_for_a_newer_replica(
    journal: CountingJournal, runs: Runs, newer: bool
) -> None:
    await commit(
        journal, step_of(RUN_ID, 0, [run_pb2.RunEvent().SerializeToString()], new=new_run(RUN_ID, owner="own"))
    )
    await journal.enter(OwnerRow("own", "", REVISION, 0))
    await journal.enter(OwnerRow("other", "", REVISION + newer, 0))
    row_id = await journal.post(RUN_ID, b'{"v":99}')
    assert await Mailbox(journal, runs, OwnershipLimits()).waiting() == []
    assert await journal.is_posted(row_id) == newer
