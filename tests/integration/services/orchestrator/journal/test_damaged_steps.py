"""Steps whose rows changed after they were written: reading their run raises DataLoss, other runs are unaffected."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from archon.errors import ArchonError, DataLoss
from archon_services.orchestrator.journal import Journal, Outcome, OwnerRow, Publication
from archon_services.orchestrator.journal.checksum import checksum_of
from archon_services.orchestrator.journal.sqlite import SqliteJournal
from tests.fixtures.damaged_journal import StoreOfRuns, overwrite_page, page_of, store_of_runs
from tests.fixtures.journal import commit_group, create, creation, event, new_run, step, store, stored_events

__all__ = ["store_of_runs"]

Harm = Callable[[StoreOfRuns], Awaitable[None]]


@pytest.fixture
async def journal(store_of_runs: StoreOfRuns) -> AsyncIterator[Journal]:
    """A journal of three runs of three steps each."""
    journal = store_of_runs.journal()
    await journal.open()
    await journal.enter(OwnerRow("owner", "", 1, 0))
    for run_id in ("r1", "r2", "r3"):
        publications = (Publication(run_id, "role", f"{run_id}.1", 1),)
        await store(journal, creation(new_run(run_id), 2, publications=publications))
        await store(journal, step(run_id, 2))
        await store(journal, step(run_id, 3, 2))
    yield journal
    await journal.close()


async def flip_data(runs: StoreOfRuns) -> None:
    await runs.flip("r2", "data", 2)


async def flip_inputs(runs: StoreOfRuns) -> None:
    await runs.flip("r2", "inputs", 2)


async def replace_inputs(runs: StoreOfRuns) -> None:
    await runs.execute("UPDATE steps SET inputs = ? WHERE run_id = 'r2' AND base = 2", b"other")


async def cut_data(runs: StoreOfRuns) -> None:
    await runs.execute("UPDATE steps SET data = ? WHERE run_id = 'r2' AND base = 2", b"")


async def copy_from_another_run(runs: StoreOfRuns) -> None:
    await runs.execute("DELETE FROM steps WHERE run_id = 'r2' AND base = 2")
    await runs.execute("UPDATE steps SET run_id = 'r2' WHERE run_id = 'r1' AND base = 2")
    await runs.execute(
        "INSERT INTO steps (run_id, base, last_seq, batch_id, data, inputs, checksum) "
        "SELECT 'r1', base, last_seq, batch_id, ?, ?, ? FROM steps WHERE run_id = 'r2' AND base = 2",
        *(step("r1", 2).data, step("r1", 2).inputs, checksum_of(step("r1", 2))),
    )


async def renumber(runs: StoreOfRuns) -> None:
    await runs.execute("UPDATE steps SET last_seq = 4 WHERE run_id = 'r2' AND base = 2")


async def delete(runs: StoreOfRuns) -> None:
    await runs.execute("DELETE FROM steps WHERE run_id = 'r2' AND base = 2")


HARMS = [flip_data, flip_inputs, replace_inputs, cut_data, copy_from_another_run, renumber, delete]


@pytest.mark.parametrize("harm", HARMS)
async def test_a_changed_row_is_data_loss_of_its_run_alone(
    journal: Journal, store_of_runs: StoreOfRuns, harm: Harm
) -> None:
    await harm(store_of_runs)
    for after in range(3):
        with pytest.raises(DataLoss) as lost:
            await journal.steps("r2", after)
        assert lost.value.metadata == {"run_id": "r2"}
        assert "run r2" in lost.value.message
        assert "event 3" in lost.value.message or "event 2" in lost.value.message
    if harm is not delete:
        with pytest.raises(DataLoss):
            await journal.inputs("r2")
    for run_id in ("r1", "r3"):
        assert await stored_events(journal, run_id) == [event(run_id, seq) for seq in range(1, 6)]
        assert await store(journal, step(run_id, 5)) is Outcome.DONE


async def test_rows_without_a_checksum_are_read(journal: Journal, store_of_runs: StoreOfRuns) -> None:
    """Rows of versions before the checksum."""
    await store_of_runs.execute("UPDATE steps SET checksum = NULL WHERE run_id = 'r2'")
    assert await stored_events(journal, "r2") == [event("r2", seq) for seq in range(1, 6)]
    assert await store(journal, step("r2", 5)) is Outcome.DONE
    assert len(await journal.inputs("r2")) == 4
    (last,) = await store_of_runs.execute("SELECT checksum FROM steps WHERE run_id = 'r2' AND base = 5")
    assert last == (checksum_of(step("r2", 5)),)


async def test_the_outbox_marks_a_damaged_answer_alone(journal: Journal, store_of_runs: StoreOfRuns) -> None:
    await store_of_runs.flip("r2", "data")
    rows = await journal.outbox("owner")
    assert [(row.run_id, row.damage is None) for row in rows] == [("r1", True), ("r2", False), ("r3", True)]
    assert [len(row.data) > 0 for row in rows] == [True, False, True]


@pytest.fixture(params=["zeros", "other bytes"])
async def holed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    """A SQLite journal of forty runs, in which a page of steps has been overwritten. Runs r10 to r39 have ended."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    await journal.enter(OwnerRow("before", "", 1, 0))
    for number in range(40):
        publications = (Publication(f"r{number}", "role", f"r{number}.1", 1),)
        first = creation(new_run(f"r{number}", owner="before"), 60, publications=publications)
        await commit_group(journal, first)
        await store(journal, step(f"r{number}", 60, 60, ended=number >= 10))
    await journal.close()
    content = b"\0" if request.param == "zeros" else b"\x5a\xa5\x13"
    overwrite_page(path, page_of(path, "r5"), content)
    journal = SqliteJournal(path)
    await journal.open()
    yield journal
    await journal.close()


async def readable(journal: SqliteJournal) -> set[str]:
    """Returns the runs whose steps can be read; the others must raise DataLoss."""
    runs: set[str] = set()
    lost: list[str] = []
    for number in range(40):
        try:
            events = await stored_events(journal, f"r{number}")
        except DataLoss as error:
            lost.append(error.metadata["run_id"])
        else:
            assert len(events) == 120
            runs.add(f"r{number}")
    assert sorted([*lost, *runs]) == sorted(f"r{number}" for number in range(40))
    return runs


async def test_a_damaged_page_is_data_loss_of_its_runs(holed: SqliteJournal) -> None:
    good = await readable(holed)
    assert "r5" not in good
    assert len(good) > 30
    assert len(await holed.runs(tenant="default")) == 40
    assert (await holed.run("r5")) is not None
    await holed.enter(OwnerRow("after", "", 1, 0))
    claimed = await holed.claim_some("after", 100, 1)
    assert {row.run_id for row in claimed} == {f"r{number}" for number in range(10)}
    for row in claimed:
        if row.run_id in good:
            assert await store(holed, step(row.run_id, 120, epoch=row.epoch)) is Outcome.DONE
    results = await commit_group(holed, step("r5", 120, epoch=2), step("r0", 121, epoch=2), creation(new_run("new")))
    assert isinstance(results[0], DataLoss) and results[0].metadata == {"run_id": "r5"}
    assert list(results[1:]) == [Outcome.DONE, Outcome.DONE]
    assert (await holed.claim("r5", "after")) is not None
    damaged = {row.run_id for row in await holed.outbox("after", 100) if row.damage is not None}
    assert len(await holed.outbox("after", 100)) == 40
    assert damaged and damaged.isdisjoint(good)


async def test_runs_beside_a_damaged_page_are_deleted(holed: SqliteJournal) -> None:
    """A run whose rows are next to the page may stay: SQLite joins pages that have become small."""
    open_runs = {f"r{number}" for number in range(10)}
    deleted = await holed.delete(1e9, 1e9, 1.0)
    left = {row.run_id for row in await holed.runs(tenant="default")}
    assert open_runs <= left
    assert deleted == 40 - len(left) > 15


async def test_a_journal_whose_end_is_damaged_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    for number in range(40):
        await create(journal, f"r{number}", count=40)
    await journal.close()
    overwrite_page(path, page_of(path, "r39"), b"\0")
    journal = SqliteJournal(path)
    with pytest.raises(ArchonError, match="is damaged where new rows are written: restore it") as refused:
        await journal.open()
    assert "\n" not in str(refused.value)
    await journal.close()


async def test_durability_7_a_file_of_version_5_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    db = sqlite3.connect(path)
    db.executescript((Path(__file__).parent / "sqlite_v5.sql").read_text())
    before = db.execute("SELECT run_id, base, last_seq, batch_id, data, inputs FROM steps ORDER BY base").fetchall()
    db.close()
    assert len(before) > 2
    run_id = before[0][0]
    for _ in range(2):
        journal = SqliteJournal(path)
        await journal.open()
        steps = await journal.steps(run_id)
        assert [(row.base, row.last_seq, row.data) for row in steps] == [(row[1], row[2], row[4]) for row in before]
        await create(journal, f"new{_}")
        await journal.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(checksum), count(*) FROM steps").fetchone() == (2, len(before) + 2)
    assert db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == ("8",)
    db.close()
