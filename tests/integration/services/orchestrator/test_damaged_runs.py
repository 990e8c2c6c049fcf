"""A run whose rows are damaged: every read of it fails with DATA_LOSS, and every other run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon.memory import Published, PublishItem
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.servicer import OrchestratorServicer
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.journal import Journal, OwnerRow, Publication, RecordRow, Turn
from archon_services.orchestrator.ports import SystemClock
from archon_services.orchestrator.retention import Retention
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import MAX_STALLED, Runs
from archon_services.orchestrator.shared_memory.outbox import OutboxPublisher
from tests.fixtures.damaged_journal import StoreOfRuns, store_of_runs
from tests.fixtures.journal import commit, new_run, step_of, store
from tests.fixtures.orchestrating import commands_of, started
from tests.fixtures.waiting import eventually
from tests.unit.services.orchestrator.runs.test_unreadable_runs import NoInstances

__all__ = ["store_of_runs"]

RUNS = ("r1", "r2", "r3")


def event(run_id: str, seq: int) -> run_pb2.RunEvent:
    return run_pb2.RunEvent(run_id=run_id, seq=seq)


def begun(run_id: str) -> list[bytes]:
    """Returns the events of a run of one role that was submitted and not dispatched."""
    submitted, created = event(run_id, 1), event(run_id, 2)
    submitted.time.GetCurrentTime()
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.roles.append("a")
    submitted.submitted.timeout.FromSeconds(600)
    created.task.task_id = f"{run_id}.1"
    created.task_state.role, created.task_state.state = "a", common_pb2.TASK_STATE_SUBMITTED
    return [submitted.SerializeToString(), created.SerializeToString()]


def ended(run_id: str) -> list[bytes]:
    end = event(run_id, 3)
    end.run_state.state = common_pb2.TASK_STATE_CANCELED
    return [end.SerializeToString()]


@pytest.fixture
async def journal(store_of_runs: StoreOfRuns) -> AsyncIterator[Journal]:
    """A journal of three open runs."""
    journal = store_of_runs.journal()
    await journal.open()
    for run_id in RUNS:
        await commit(journal, step_of(run_id, 0, begun(run_id), new=new_run(run_id)))
    yield journal
    await journal.close()


@pytest.fixture
async def runs(journal: Journal) -> AsyncIterator[Runs]:
    runs = Runs(owner="o2", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    yield runs
    await runs.stop()


@pytest.fixture
async def commands(runs: Runs, journal: Journal) -> AsyncIterator[Commands]:
    roles = RegistryWatch("127.0.0.1:1", lambda instances, removed: None)
    yield commands_of(runs, journal, roles)
    await roles.close()


async def watched(commands: Commands, run_id: str) -> int:
    """Returns the number of events of a run that has ended."""
    return sum(
        [len(pb.WatchRunResponse.FromString(batch).events)
         async for batch in commands.watch(pb.WatchRunRequest(run_id=run_id))]
    )  # fmt: skip


async def end_all(journal: Journal) -> None:
    for run_id in RUNS:
        await store(journal, step_of(run_id, 2, ended(run_id), state=5, ended=True))


@pytest.mark.parametrize("column", ["data", "inputs"])
async def test_requests_for_a_damaged_run_raise_data_loss(
    journal: Journal, store_of_runs: StoreOfRuns, commands: Commands, column: str
) -> None:
    """Although it has ended: what is missing of its answers must not go unnoticed."""
    await journal.enter(OwnerRow("owner", "", 1, 0))
    await end_all(journal)
    await store_of_runs.execute("UPDATE steps SET inputs = ? WHERE base = 0", b"inputs")
    await store_of_runs.execute("UPDATE steps SET checksum = NULL WHERE base = 0 AND run_id <> 'r2'")
    if column == "data":
        await store_of_runs.flip("r2", "data")
    with pytest.raises(DataLoss) as lost:
        await commands.run("r2")
    assert lost.value.metadata == {"run_id": "r2"}
    with pytest.raises(DataLoss) as lost:
        await watched(commands, "r2")
    assert lost.value.metadata == {"run_id": "r2"}
    for run_id in ("r1", "r3"):
        assert (await commands.run(run_id)).state == common_pb2.TASK_STATE_CANCELED
        assert await watched(commands, run_id) == 3
    assert {row.run_id for row in await journal.runs(tenant="default")} == set(RUNS)


async def test_a_damaged_run_does_not_stop_a_start(
    journal: Journal, store_of_runs: StoreOfRuns, runs: Runs, commands: Commands
) -> None:
    await store_of_runs.flip("r2", "data")
    assert await started(runs, journal, NoInstances()) == 3
    assert [runs.holds(run_id) for run_id in RUNS] == [True, False, True]
    with pytest.raises(DataLoss):
        await commands.run("r2")
    for _ in range(MAX_STALLED):
        row = await journal.claim("r2", runs.owner)
        assert row is not None
        await runs.take_over(row, ())
    assert (await commands.run("r2")).state == common_pb2.TASK_STATE_FAILED, "it is quarantined"


async def test_a_command_that_cannot_be_read_is_dropped_alone(journal: Journal, runs: Runs) -> None:
    await journal.post("r1", b"\xff\xfe")
    await journal.post("r1", b"[[1, 2]]\n")
    await journal.post("r1", b'{"inputs": 3}\n')
    await journal.post("r3", encode_command(inp.Cancel("caller", "enough"), 100.0))
    assert await started(runs, journal, NoInstances()) == 3
    assert [runs.holds(run_id) for run_id in ("r1", "r2")] == [True] * 2, "r3 may have ended by now"
    async with asyncio.timeout(10):
        await runs.wait_until_finished("r3")
    assert await journal.posted(runs.owner) == []


class Memory:
    """A client of a memory service."""

    def __init__(self) -> None:
        self.published: list[str] = []

    async def publish_items(self, items: list[PublishItem], **_: Any) -> list[Any]:
        self.published += [item.content for item in items]
        return [Published(item.role, 1) for item in items]

    async def close(self) -> None:
        pass


async def test_a_damaged_answer_does_not_stop_other_publications(
    journal: Journal, store_of_runs: StoreOfRuns, runs: Runs
) -> None:
    await journal.enter(OwnerRow("owner", "", 1, 0))
    for run_id in RUNS:
        result = event(run_id, 3)
        result.task.task_id = f"{run_id}.1"
        result.result.output.add(text=f"answer of {run_id}")
        row = Publication(run_id, "a", f"{run_id}.1", 3)
        await store(journal, step_of(run_id, 2, [result.SerializeToString()], publications=(row,)))
    await store_of_runs.flip("r2", "data", 2)
    runs = Runs(owner="owner", clock=JournalClock(journal), journal=journal, new_id=lambda: "new")
    publisher, memory = OutboxPublisher(journal, runs, "127.0.0.1:1", keep=60.0), Memory()
    await publisher._client.close()
    publisher._client = memory  # type: ignore[assignment]

    async def all_published() -> bool:
        return not await journal.outbox("owner")

    publisher.start()
    try:
        await eventually(all_published)
    finally:
        await publisher.close()
    assert memory.published == ["answer of r1", "answer of r3"]


async def test_a_damaged_run_does_not_stop_a_sweep(journal: Journal, store_of_runs: StoreOfRuns) -> None:
    await journal.enter(OwnerRow("owner", "", 1, 0))
    await end_all(journal)
    await store_of_runs.flip("r2", "data")
    retention = Retention(journal, SystemClock(1e9), compact_after=60.0, delete_after=1e9)
    assert await retention.sweep() == (2, 0)
    compacted = {row.run_id for row in await journal.runs(tenant="default") if row.compacted}
    assert compacted == {"r1", "r3"}
    assert await Retention(journal, SystemClock(1e9), delete_after=60.0).sweep() == (0, 3)


async def test_a_record_that_cannot_be_read_is_data_loss_of_its_run(
    journal: Journal, store_of_runs: StoreOfRuns, runs: Runs, commands: Commands
) -> None:
    await journal.enter(OwnerRow("owner", "", 1, 0))
    record = run_pb2.RunRecord(role="a").SerializeToString()
    for run_id in RUNS:
        await store(journal, step_of(run_id, 2, ended(run_id), state=5, ended=True, records=(RecordRow("a", record),)))
    await store_of_runs.execute("UPDATE records SET data = ? WHERE run_id = 'r2'", b"\xff")
    servicer = OrchestratorServicer(commands, journal, runs.watchers)
    with pytest.raises(DataLoss) as lost:
        await servicer.ListRunRecords(pb.ListRunRecordsRequest(run_id="r2"), None)
    assert lost.value.metadata == {"run_id": "r2"}
    assert len((await servicer.ListRunRecords(pb.ListRunRecordsRequest(run_id="r3"), None)).records) == 1


async def test_a_changed_turn_is_data_loss_of_its_conversation(journal: Journal, store_of_runs: StoreOfRuns) -> None:
    await journal.enter(OwnerRow("owner", "", 1, 0))
    for session, run_id in (("s1", "r1"), ("s2", "r2")):
        turns = [Turn("default", session, "a", version, b"turn %d" % version) for version in (1, 2)]
        await store(journal, step_of(run_id, 2, [event(run_id, 3).SerializeToString()], turns=turns[:1]))
        await store(journal, step_of(run_id, 3, [event(run_id, 4).SerializeToString()], turns=turns[1:]))
    await store_of_runs.execute("UPDATE turns SET data = ? WHERE session_id = 's1' AND version = 1", b"turn 3")
    with pytest.raises(DataLoss, match="turn 1 of 'a' in session 's1' is damaged"):
        await journal.conversation("default", "s1", "a")
    conversation = await journal.conversation("default", "s2", "a")
    assert (conversation.version, conversation.turns) == (2, (b"turn 1", b"turn 2"))
    await store_of_runs.execute("UPDATE turns SET checksum = NULL")
    assert (await journal.conversation("default", "s1", "a")).turns == (b"turn 3", b"turn 2")
