"""Who owns runs, and what waits for them, held for each store."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

from archon_services.orchestrator.journal import Journal, MemoryJournal, Outcome, OwnerRow, Publication
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from archon_services.orchestrator.journal.sqlite.schema import VERSION
from tests.integration.services.orchestrator.journal.test_conformance import journal, new, place, step

__all__ = ["journal", "place"]


def one(owner: str, revision: int = 1) -> OwnerRow:
    return OwnerRow(owner, f"{owner}:7100", revision, 0)


async def test_durability_8_an_incarnation_beats_until_it_is_buried_and_never_comes_back(journal: Journal) -> None:
    await journal.enter(one("owner"))
    assert await journal.living() == [OwnerRow("owner", "owner:7100", 1, 0)]
    assert await journal.beat("owner", "moved:1")
    assert await journal.living() == [OwnerRow("owner", "moved:1", 1, 1)]
    assert not await journal.expire("owner", 0), "it has beaten since"
    assert await journal.expire("owner", 1)
    assert await journal.expire("owner", 1), "whoever comes second finds it so"
    assert not await journal.beat("owner", "moved:1")
    assert await journal.living() == []


async def test_durability_9_a_run_is_claimed_only_from_somebody_who_is_buried_or_has_left(journal: Journal) -> None:
    await journal.enter(one("owner"))
    await journal.create(new("r"), step("r", 0))
    assert await journal.claim("r", "other") is None
    assert await journal.claim_some("other", 10, 1) == []
    own = await journal.claim("r", "owner")
    assert own is not None
    assert own.epoch == 2
    await journal.leave("owner")
    (taken,) = await journal.claim_some("other", 10, 1)
    assert (taken.owner, taken.epoch) == ("other", 3)


async def test_durability_10_claims_come_in_batches_oldest_first_and_no_newer_than_can_be_read(
    journal: Journal,
) -> None:
    for number in range(5):
        await journal.create(new(f"r{number}"), step(f"r{number}", 0, time=100.0 + number))
    await journal.create(new("done"), step("done", 0, ended=True, state=3))
    assert [row.run_id for row in await journal.claim_some("a", 2, 1)] == ["r0", "r1"]
    await journal.enter(one("a"))
    assert await journal.claim_some("b", 10, 0) == []
    assert [row.run_id for row in await journal.claim_some("b", 10, 1)] == ["r2", "r3", "r4"]
    assert await journal.open_runs("a") == ["r0", "r1"]
    assert await journal.open_runs() == [f"r{number}" for number in range(5)]


async def test_two_that_claim_at_once_get_different_runs(journal: Journal) -> None:
    for number in range(20):
        await journal.create(new(f"r{number}"), step(f"r{number}", 0))
    await journal.enter(one("a"))
    found = await asyncio.gather(*(journal.claim_some("a", 7, 1) for _ in range(4)))
    claimed = [row.run_id for rows in found for row in rows]
    assert len(claimed) == len(set(claimed)) == 20


async def test_durability_14_how_often_a_run_was_claimed_in_vain_is_counted(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    counted = []
    for number in range(4):
        row = await journal.claim("r", "owner")
        assert row is not None
        counted.append(row.stalled)
        if number == 1:
            assert await journal.append(step("r", 1, epoch=row.epoch)) is Outcome.DONE
    assert counted == [0, 1, 0, 1]


async def test_durability_13_a_command_waits_for_the_owner_of_its_run_until_an_append_takes_it(
    journal: Journal,
) -> None:
    await journal.enter(one("owner"))
    await journal.create(new("r"), step("r", 0))
    await journal.post("r", b"first")
    await journal.post("r", b"second")
    await journal.post("nobody's", b"?")
    first, second = await journal.posted("owner")
    assert [(row.run_id, row.data) for row in (first, second)] == [("r", b"first"), ("r", b"second")]
    assert await journal.posted("other") == []
    wrong = step("r", 7, taken=(first.row_id,))
    assert await journal.append(wrong) is Outcome.STALE
    assert len(await journal.posted("owner")) == 2, "taken with the append or not at all"
    assert await journal.append(step("r", 1, taken=(first.row_id,))) is Outcome.DONE
    assert [row.data for row in await journal.posted("owner")] == [b"second"]
    await journal.drop([second.row_id])
    assert await journal.posted("owner") == []


async def test_what_is_to_be_published_is_its_owners_or_anybodys_where_nobody_lives(journal: Journal) -> None:
    await journal.enter(one("owner"))
    await journal.create(new("r"), step("r", 0, publications=(Publication("s", "a", "r.1", 1, "x"),)))
    assert len(await journal.outbox("owner")) == 1
    if journal.shared:
        assert await journal.outbox("other") == []
    await journal.leave("owner")
    assert len(await journal.outbox("other")) == 1


async def test_in_a_store_of_ones_own_whoever_enters_is_the_only_one() -> None:
    store = MemoryJournal()
    await store.enter(one("a"))
    await store.enter(one("b"))
    assert [row.owner for row in await store.living()] == ["b"]


async def test_durability_7_a_sqlite_journal_of_the_version_before_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.executescript((Path(__file__).parent / "sqlite_v1.sql").read_text())
    db.close()
    store = SqliteJournal(path)
    for _ in range(2):
        await store.open()
        (row,) = await store.claim_some("owner", 10, 1)
        assert (row.run_id, row.owner, row.last_seq, row.revision) == ("r", "owner", 2, 1)
        assert await store.events("r", 0) == [b"one", b"two"]
        await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT value FROM meta").fetchone() == (str(VERSION),)
    db.close()


async def test_durability_23_a_store_says_what_time_it_is_there(journal: Journal) -> None:
    first = await journal.now()
    assert abs(first - time.time()) < 1, "seconds since the epoch; here all stores are on one machine"
    assert await journal.now() > first
