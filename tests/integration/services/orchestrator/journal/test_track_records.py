"""Track records and ratings, tested on each store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archon.errors import ResourceExhausted
from archon_services.orchestrator.journal import Journal, OwnerRow, RatingRow, TrackRecordRow, track_records
from archon_services.orchestrator.journal.memory import track_records as memory_records
from archon_services.orchestrator.journal.postgres import track_records as postgres_records
from archon_services.orchestrator.journal.sqlite import track_records as sqlite_records
from archon_services.orchestrator.journal.track_records import MAX_RATINGS
from tests.fixtures.journal import creation, new_run, store


def joined(parts: list[bytes]) -> bytes:
    return b"+".join(sorted(parts))


def row(owner: str, instance_id: str, data: bytes, time: float = 1.0) -> TrackRecordRow:
    return TrackRecordRow(owner, "default", "cook", instance_id, time, data)


async def enter(journal: Journal, owner: str) -> None:
    await journal.enter(OwnerRow(owner, f"{owner}:1", 1, 0))


async def test_a_live_incarnation_replaces_its_own_rows(journal: Journal) -> None:
    await enter(journal, "one")
    assert await journal.save_track_records("one", [row("one", "", b"a"), row("one", "x", b"b")])
    assert await journal.save_track_records("one", [row("one", "x", b"c", 2.0)])
    assert sorted(await journal.track_records(""), key=lambda each: each.instance_id) == [
        row("one", "", b"a"),
        row("one", "x", b"c", 2.0),
    ]
    assert await journal.track_records("one") == []


async def test_rows_of_incarnations_that_are_gone_are_added_up(journal: Journal) -> None:
    for owner in ("one", "two"):
        await enter(journal, owner)
        await journal.save_track_records(owner, [row(owner, "x", owner.encode(), float(len(owner)))])
        await journal.leave(owner)
    await enter(journal, "three")
    await journal.save_track_records("three", [row("three", "x", b"three")])
    for _ in range(2):
        await journal.fold_track_records(joined)
        assert await journal.track_records("three") == [row("", "x", b"one+two", 3.0)]
    assert len(await journal.track_records("")) == 1, "the row without an owner is the other one"
    assert not await journal.save_track_records("one", [row("one", "x", b"late")]), "it is gone for good"
    await journal.leave("three")
    await journal.fold_track_records(joined)
    assert [each.data for each in await journal.track_records("any")] == [b"one+two+three"]


async def test_the_oldest_rows_are_deleted_above_the_bound(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_records, sqlite_records):
        monkeypatch.setattr(module, "MAX_TRACK_RECORDS", 2)
    kept = track_records.MAX_TRACK_RECORDS - 1
    monkeypatch.setattr(postgres_records, "TRIM", postgres_records.TRIM.replace(f"OFFSET {kept}", "OFFSET 1"))
    await enter(journal, "one")
    await journal.save_track_records("one", [row("one", str(age), b"a", 10.0 - age) for age in range(4)])
    await journal.fold_track_records(joined)
    assert sorted(each.instance_id for each in await journal.track_records("")) == ["0", "1"]


async def test_an_identity_has_one_rating_of_a_run(journal: Journal) -> None:
    assert await journal.ratings("r") == []
    first, other = RatingRow("ann", 1, "bad", 10.0), RatingRow("bob", 4, "", 11.0)
    assert await journal.rate("r", first) is None
    assert await journal.rate("r", other) is None
    again = RatingRow("ann", 5, "good, after all", 12.0)
    assert await journal.rate("r", again) == first
    assert await journal.ratings("r") == [other, again]
    assert await journal.ratings("s") == []


async def test_the_ratings_of_a_run_are_bounded(journal: Journal) -> None:
    for number in range(MAX_RATINGS):
        await journal.rate("r", RatingRow(f"p{number}", 3, "", float(number)))
    with pytest.raises(ResourceExhausted, match="1,000 ratings"):
        await journal.rate("r", RatingRow("further", 3, "", 1.0))
    assert await journal.rate("r", RatingRow("p7", 4, "", 1.0)) is not None, "another one by the same identity"
    assert len(await journal.ratings("r")) == MAX_RATINGS


async def test_ratings_survive_compaction_and_are_deleted_with_the_run(journal: Journal) -> None:
    for run_id in ("r", "kept"):
        ends = 100.0 if run_id == "r" else 900.0
        await store(journal, creation(new_run(run_id), ended=True, state=3, time=ends))
        await journal.rate(run_id, RatingRow("ann", 5, "", 1.0))
    await journal.compact("r", b"summary")
    assert len(await journal.ratings("r")) == 1
    assert await journal.delete(500.0, 1_000.0, 60.0) == 1
    assert await journal.ratings("r") == []
    assert len(await journal.ratings("kept")) == 1


@pytest.mark.parametrize("name", ["sqlite-full", "sqlite-normal", "postgres"])
async def test_records_and_ratings_survive_a_restart(place: Callable[[str], Journal], name: str) -> None:
    journal = place(name)
    await journal.open()
    await enter(journal, "one")
    await journal.save_track_records("one", [row("one", "x", b"a")])
    await journal.rate("r", RatingRow("ann", 5, "well done", 10.0))
    await journal.close()
    journal = place(name)
    await journal.open()
    assert await journal.track_records("") == [row("one", "x", b"a")]
    assert await journal.ratings("r") == [RatingRow("ann", 5, "well done", 10.0)]
    await journal.close()
