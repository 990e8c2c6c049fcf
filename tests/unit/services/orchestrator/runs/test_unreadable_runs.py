"""A journal with a run that cannot be read: requests for that run raise DataLoss, other runs are unaffected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_services.orchestrator.api.servicer import OrchestratorServicer
from archon_services.orchestrator.journal import MemoryJournal, RecordRow
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import MAX_STALLED, Runs
from archon_services.orchestrator.runs.states.load import load_run
from tests.fixtures.journal import commit, new_run, step_of, stored_events
from tests.fixtures.orchestrating import commands_of, started
from tests.unit.services.orchestrator.runs.transports import Instances

Spoil = Callable[[list[bytes]], None]


class NoInstances(Instances):
    """A transport that reaches no instance."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"no instance may be called: {name}")


def event(seq: int) -> run_pb2.RunEvent:
    return run_pb2.RunEvent(run_id="r", seq=seq)


def begun() -> list[bytes]:
    """Returns the events of a run of one role that was submitted and not dispatched."""
    submitted, created = event(1), event(2)
    submitted.time.GetCurrentTime()
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.roles.append("a")
    submitted.submitted.timeout.FromSeconds(600)
    created.task.task_id = "r.1"
    created.task_state.role, created.task_state.state = "a", common_pb2.TASK_STATE_SUBMITTED
    return [submitted.SerializeToString(), created.SerializeToString()]


def _numbered_back(events: list[bytes]) -> None:
    """Gives the last event a number that came before."""
    events[1] = event(1).SerializeToString()


def _stranger(events: list[bytes]) -> None:
    """Replaces an event with one of a task that was never created."""
    lost = event(2)
    lost.task.task_id = "r.9"
    lost.lost.SetInParent()
    events[1] = lost.SerializeToString()


SPOILED: dict[str, Spoil] = {
    "not a message": lambda events: events.__setitem__(1, b"\xff"),
    "cut short": lambda events: events.__setitem__(1, events[1][:-1]),
    "nothing": lambda events: events.__setitem__(0, b""),
    "first event missing": lambda events: events.__delitem__(0),
    "event in between missing": lambda events: events.append(event(4).SerializeToString()),
    "last event numbered back": _numbered_back,
    "unknown task": _stranger,
}


async def stored(journal: MemoryJournal, run_id: str, events: list[bytes]) -> None:
    await commit(journal, step_of(run_id, 0, events, new=new_run(run_id)))


@pytest.fixture(params=SPOILED.values(), ids=list(SPOILED))
async def journal(request: pytest.FixtureRequest) -> MemoryJournal:
    """A journal of three runs, of which the second cannot be read."""
    journal = MemoryJournal()
    for run_id in ("r1", "r2", "r3"):
        events = begun()
        if run_id == "r2":
            request.param(events)
        await stored(journal, run_id, events)
    return journal


@pytest.fixture
async def runs(journal: MemoryJournal) -> AsyncIterator[Runs]:
    runs = Runs(owner="o2", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    yield runs
    await runs.stop()


async def test_an_unreadable_run_raises_data_loss(journal: MemoryJournal) -> None:
    with pytest.raises(DataLoss) as lost:
        await load_run(journal, "r2")
    assert lost.value.metadata == {"run_id": "r2"}
    assert (await load_run(journal, "r3")).tasks["r.1"].role == "a"


async def test_an_unreadable_run_does_not_stop_other_claims(journal: MemoryJournal, runs: Runs) -> None:
    assert await started(runs, journal, NoInstances()) == 3
    await asyncio.sleep(0)
    assert runs.held("r1") is not None
    assert runs.held("r2") is None
    assert runs.held("r3") is not None
    with pytest.raises(DataLoss):
        await runs.state("r2")


async def test_durability_14_an_unreadable_run_is_quarantined(journal: MemoryJournal, runs: Runs) -> None:
    follower = RegistryWatch("127.0.0.1:1", lambda changed, removed: None)
    commands = commands_of(runs, journal, follower)
    await started(runs, journal, NoInstances())
    with pytest.raises(DataLoss):
        await commands.run("r2")
    for _ in range(MAX_STALLED):
        row = await journal.claim("r2", runs.owner)
        assert row is not None
        await runs.take_over(row, ())
    run = await commands.run("r2")
    assert run.state == common_pb2.TASK_STATE_FAILED
    assert run.failure.reason == failure_pb2.ERROR_REASON_QUARANTINED
    assert len(await stored_events(journal, "r2")) == run.last_seq, "the stored events are kept"
    await follower.close()


async def test_undecodable_bytes_of_the_journal_are_data_loss() -> None:
    """Watching an event, listing a record and reading a summary raise DataLoss, not InvalidArgument."""
    journal = MemoryJournal()
    await stored(journal, "r1", [begun()[0], b"\xff"])
    last = [event(3).SerializeToString()]
    await commit(journal, step_of("r1", 2, last, state=3, ended=True, records=(RecordRow("a", b"\xff"),)))
    follower = RegistryWatch("127.0.0.1:1", lambda changed, removed: None)
    runs = Runs(owner="o", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    commands = commands_of(runs, journal, follower)
    try:
        with pytest.raises(DataLoss):
            [batch async for batch in commands.watch(pb.WatchRunRequest(run_id="r1"))]
        with pytest.raises(DataLoss):
            await OrchestratorServicer(commands, journal, runs.watchers).ListRunRecords(
                pb.ListRunRecordsRequest(run_id="r1"), None
            )
        await journal.compact("r1", b"\xff")
        with pytest.raises(DataLoss):
            await commands.run("r1")
    finally:
        await follower.close()
