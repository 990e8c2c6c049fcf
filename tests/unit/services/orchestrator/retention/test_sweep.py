"""A sweep compacts all runs that are due; a run that cannot be read does not stop the others."""

from __future__ import annotations

from pathlib import Path

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.orchestrator.journal import MemoryJournal, Outcome, Step
from archon_services.orchestrator.journal.framing import frame
from archon_services.orchestrator.journal.sqlite import SqliteJournal
from archon_services.orchestrator.retention import PAGE, Retention
from tests.fixtures.journal import commit, new_run
from tests.unit.services.orchestrator.retention.clock import Clock

RUNS = 2 * PAGE + 50


def ended(run_id: str) -> Step:
    submitted = run_pb2.RunEvent(run_id=run_id, seq=1)
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.goal.add(text="x")
    end = run_pb2.RunEvent(run_id=run_id, seq=2)
    end.run_state.state = common_pb2.TASK_STATE_CANCELED
    data = b"".join(frame(event.SerializeToString()) for event in (submitted, end))
    state = int(common_pb2.TASK_STATE_CANCELED)
    return Step(run_id, 1, 0, 2, "b", 1_000.0, data, b"", state, True, new=new_run(run_id))


async def fill(journal: MemoryJournal | SqliteJournal) -> None:
    results = await commit(journal, *(ended(f"r{number:04}") for number in range(RUNS)))
    assert set(results) == {Outcome.DONE}


async def test_durability_7_one_sweep_covers_all_runs_that_are_due() -> None:
    journal, clock = MemoryJournal(), Clock()
    await fill(journal)
    retention = Retention(journal, clock, compact_after=60.0, delete_after=180.0)
    assert await retention.sweep() == (0, 0)
    clock.time += 61.0
    assert await retention.sweep() == (RUNS, 0)
    assert await retention.sweep() == (0, 0)
    clock.time += 120.0
    assert await retention.sweep() == (0, RUNS)
    assert await journal.runs(tenant="default") == []


async def test_durability_31_a_run_that_ended_in_the_future_ages_from_now_on() -> None:
    journal, clock = MemoryJournal(), Clock()
    await fill(journal)
    clock.time = 100.0
    retention = Retention(journal, clock, compact_after=100.0, delete_after=200.0)
    assert await retention.sweep() == (0, 0)
    clock.time += 161.0
    assert await retention.sweep() == (RUNS, 0)
    clock.time += 100.0
    assert await retention.sweep() == (0, RUNS)


async def test_a_run_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    journal, clock = SqliteJournal(tmp_path / "journal.db", sync="normal"), Clock()
    await journal.open()
    try:
        await fill(journal)
        await journal._write(lambda db: db.execute("UPDATE steps SET data = x'ff' WHERE run_id = 'r0003'"))
        clock.time += 61.0
        retention = Retention(journal, clock, compact_after=60.0, delete_after=180.0)
        assert await retention.sweep() == (RUNS - 1, 0)
        assert await retention.sweep() == (0, 0)
    finally:
        await journal.close()
