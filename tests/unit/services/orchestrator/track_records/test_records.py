"""The track records of roles and instances, in memory and in a journal that replicas share."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import Unavailable
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Amount, TaskState
from archon_services.orchestrator.journal import MemoryJournal, OwnerRow, TrackRecordRow
from archon_services.orchestrator.track_records import records as module
from archon_services.orchestrator.track_records.records import MAX_PENDING, MIN_TASKS, Subject, TrackRecords
from archon_services.orchestrator.track_records.tally import TASKS_HALF_LIFE, Tally
from archon_services.orchestrator.track_records.upkeep import TrackRecordUpkeep

NOW = 1e9


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> float:
        return self.time


def completed(
    records: TrackRecords, role: str, seconds: float, cost: int = 0, instance: str = "i", **fields: Any
) -> None:
    run = RunState()
    run.tasks["t"] = Task("t", role, (), instance_id=instance)
    run.tasks["t"].start_time, run.tasks["t"].end_time = 100.0, 100.0 + seconds
    values: dict[str, Any] = {"state": TaskState.COMPLETED, "attempt": 1, **fields}
    records.note([ev.ResultReceived("t", role=role, payload=None, spent=Amount(10, cost), **values)], run)


def test_a_few_tasks_are_no_average() -> None:
    records = TrackRecords(Clock())
    for _ in range(MIN_TASKS - 1):
        completed(records, "cook", 2.0)
    assert records.average("", "cook") is None
    completed(records, "cook", 2.0)
    assert records.average("", "cook") is not None
    assert records.average("", "waiter") is None


def test_time_and_cost_are_averaged_over_instances() -> None:
    records = TrackRecords(Clock())
    for number, (seconds, cost) in enumerate(((1.0, 10), (2.0, 20), (3.0, 60))):
        completed(records, "cook", seconds, cost, f"cook-{number}")
    average = records.average("", "cook")
    assert average is not None
    assert average.seconds == pytest.approx(2.0) and average.cost_micro_usd == pytest.approx(30.0)
    one = records.of("", "cook", "cook-1")
    assert one is not None and one.mean_seconds == 2.0 and one.tasks == 1.0


def test_new_tasks_count_more_than_old_ones() -> None:
    clock = Clock()
    records = TrackRecords(clock)
    for _ in range(100):
        completed(records, "cook", 1.0)
    clock.time += 7 * TASKS_HALF_LIFE
    for _ in range(20):
        completed(records, "cook", 11.0)
    average = records.average("", "cook")
    assert average is not None and average.seconds > 9


@pytest.mark.parametrize("fields", [{"state": TaskState.FAILED}, {"attempt": 0}])
def test_failed_and_reused_tasks_are_no_average(fields: dict[str, Any]) -> None:
    records = TrackRecords(Clock())
    for _ in range(MIN_TASKS):
        completed(records, "cook", 2.0, **fields)
    assert records.average("", "cook") is None


def test_the_number_of_tallies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TALLIES", 3)
    records = TrackRecords(Clock())
    for instance in ("a", "b", "c"):
        completed(records, "cook", 2.0, instance=instance)
    kept = records.subjects("")
    assert kept == [Subject("", "cook"), Subject("", "cook", "b"), Subject("", "cook", "c")], "the idlest one is gone"


def test_observations_wait_in_a_bounded_list() -> None:
    records = TrackRecords(Clock())
    for _ in range(MAX_PENDING + 3):
        completed(records, "cook", 2.0)
        assert len(records._pending) < MAX_PENDING
    tally = records.of("", "cook")
    assert tally is not None and tally.completed == MAX_PENDING + 3


def test_a_rating_replaces_the_earlier_one() -> None:
    clock = Clock()
    records = TrackRecords(clock)
    workers = [("cook", "a"), ("cook", "b"), ("cook", "a")]
    records.rate("", workers, 1)
    clock.time += TASKS_HALF_LIFE
    records.rate("", workers, 5, (1, NOW))
    for instance in ("", "a", "b"):
        tally = records.of("", "cook", instance)
        assert tally is not None
        assert tally.ratings == pytest.approx(1.0) and tally.mean_stars == pytest.approx(5.0)


def test_a_clock_that_was_set_back_stops_no_record() -> None:
    clock = Clock()
    records = TrackRecords(clock)
    clock.time += 365 * TASKS_HALF_LIFE
    completed(records, "cook", 1.0)
    records.replace_others([(Subject("", "cook"), Tally(clock.time, completed=2.0, seconds=2.0))])
    records.settle()
    clock.time = NOW
    completed(records, "cook", 3.0)
    tally = records.of("", "cook")
    assert tally is not None and tally.completed - 1.0 >= 2.0
    records.replace_others([(Subject("", "cook"), Tally(NOW + 365 * TASKS_HALF_LIFE, completed=2.0, seconds=2.0))])
    tally = records.of("", "cook")
    assert tally is not None and (tally.completed, tally.time) == (4.0, NOW)


async def opened(journal: MemoryJournal, owner: str, clock: Clock) -> tuple[TrackRecords, TrackRecordUpkeep]:
    await journal.enter(OwnerRow(owner, "", 1, 0))
    records = TrackRecords(clock)
    return records, TrackRecordUpkeep(records, journal, lambda: owner)


async def test_replicas_add_up_what_each_has_seen() -> None:
    journal, clock = MemoryJournal(shared=True), Clock()
    first, first_upkeep = await opened(journal, "one", clock)
    second, second_upkeep = await opened(journal, "two", clock)
    completed(first, "cook", 1.0, instance="a")
    completed(second, "cook", 3.0, instance="a")
    for upkeep in (first_upkeep, second_upkeep):
        await upkeep.save()
    for records, upkeep in ((first, first_upkeep), (second, second_upkeep)):
        await upkeep.read()
        tally = records.of("", "cook", "a")
        assert tally is not None and (tally.completed, tally.mean_seconds) == (2.0, 2.0)


async def test_a_restart_goes_on_with_the_stored_tallies() -> None:
    journal, clock = MemoryJournal(), Clock()
    for number in range(1, 4):
        records, upkeep = await opened(journal, f"start-{number}", clock)
        await upkeep.start()
        completed(records, "cook", 1.0, instance="a")
        await upkeep.close()
        tally = records.of("", "cook", "a")
        assert tally is not None and tally.completed == number
    assert len(await journal.track_records("")) == 2, "earlier incarnations are added up, besides the last one"


async def test_an_expired_incarnation_counts_its_tasks_once() -> None:
    journal, clock = MemoryJournal(shared=True), Clock()
    first, first_upkeep = await opened(journal, "one", clock)
    completed(first, "cook", 1.0)
    await first_upkeep.save()
    await journal.expire("one", 0)
    second, second_upkeep = await opened(journal, "two", clock)
    await second_upkeep.start()
    completed(first, "cook", 1.0)
    await first_upkeep.save()
    await first_upkeep.read()
    for records in (first, second):
        tally = records.of("", "cook")
        assert tally is not None and tally.completed == 1.0
    await second_upkeep.close()


async def test_a_store_that_fails_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, clock = MemoryJournal(), Clock()
    records, upkeep = await opened(journal, "one", clock)
    completed(records, "cook", 1.0)

    async def fails(*_: object) -> Any:
        raise Unavailable("no database")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "save_track_records", fails)
        patch.setattr(journal, "fold_track_records", fails)
        with pytest.raises(Unavailable):
            await upkeep.save()
        await upkeep.start()
        await upkeep.close()
    await upkeep.save()
    assert {row.instance_id for row in await journal.track_records("")} == {"", "i"}


async def test_a_stored_tally_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    journal, clock = MemoryJournal(shared=True), Clock()
    records, upkeep = await opened(journal, "one", clock)
    await journal.enter(OwnerRow("two", "", 1, 0))
    await journal.save_track_records("two", [TrackRecordRow("two", "", "cook", "a", NOW, b"damaged")])
    await upkeep.read()
    assert records.subjects("") == []
    assert "cannot be read" in caplog.text
