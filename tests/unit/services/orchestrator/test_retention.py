"""All that is due is compacted in one sweep, however much that is, and what can't be read is in nobody's way."""

from __future__ import annotations

from pathlib import Path

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.orchestrator.journal import Append, MemoryJournal, NewRun
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from archon_services.orchestrator.retention import PAGE, Retention

RUNS = 2 * PAGE + 50


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def ended(run_id: str) -> Append:
    submitted = run_pb2.RunEvent(run_id=run_id, seq=1)
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.goal.add(text="x")
    end = run_pb2.RunEvent(run_id=run_id, seq=2)
    end.run_state.state = common_pb2.TASK_STATE_CANCELED
    events = tuple(event.SerializeToString() for event in (submitted, end))
    return Append(run_id, 1, 0, "b", 1_000.0, events, b"", int(common_pb2.TASK_STATE_CANCELED), True)


async def fill(journal: MemoryJournal | SqliteJournal) -> None:
    for number in range(RUNS):
        run_id = f"r{number:04}"
        await journal.create(NewRun(run_id, "default", "", b"", "", "o"), ended(run_id))


async def test_durability_7_one_sweep_compacts_and_deletes_all_that_is_due() -> None:
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


async def test_a_run_that_cannot_be_read_keeps_no_other_from_being_compacted(tmp_path: Path) -> None:
    journal, clock = SqliteJournal(tmp_path / "journal.db", sync="normal"), Clock()
    await journal.open()
    try:
        await fill(journal)
        await journal._write(lambda db: db.execute("UPDATE events SET data = x'ff' WHERE run_id = 'r0003'"))
        clock.time += 61.0
        retention = Retention(journal, clock, compact_after=60.0, delete_after=180.0)
        assert await retention.sweep() == (RUNS - 1, 0)
        assert await retention.sweep() == (0, 0)
    finally:
        await journal.close()
