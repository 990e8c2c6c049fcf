"""What every journal promises, held for each store. Names with durability_N hold line DN of docs/durability.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition, RequestIdReused
from archon_services.orchestrator.journal import Append, Journal, MemoryJournal, NewRun, Outcome, Publication, RecordRow
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal

STORES = ["memory", "sqlite-full", "sqlite-normal", "postgres"]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Journal]:
    """Makes journals of a store, all over the same file or database of this test."""

    def make(store: str) -> Journal:
        if store == "postgres":
            return PostgresJournal(request.getfixturevalue("postgres_dsn"))
        if store == "memory":
            return MemoryJournal()
        return SqliteJournal(tmp_path / "journal.db", sync="full" if store == "sqlite-full" else "normal")

    return make


@pytest.fixture(params=STORES)
async def journal(request: pytest.FixtureRequest, place: Callable[[str], Journal]) -> AsyncIterator[Journal]:
    store = place(request.param)
    await store.open()
    yield store
    await store.close()


def new(run_id: str, request_id: str = "", payload: bytes = b"p", session: str = "") -> NewRun:
    return NewRun(run_id, "default", request_id, payload, session, "owner")


def step(
    run_id: str,
    last_seq: int,
    events: int = 1,
    *,
    epoch: int = 1,
    batch: str = "",
    time: float = 100.0,
    ended: bool = False,
    state: int = 2,
    records: tuple[RecordRow, ...] = (),
    publications: tuple[Publication, ...] = (),
    taken: tuple[int, ...] = (),
) -> Append:
    data = tuple(f"{run_id}:{last_seq + n}".encode() for n in range(1, events + 1))
    batch_id = batch or f"{run_id}-{last_seq}"
    return Append(run_id, epoch, last_seq, batch_id, time, data, b"in", state, ended, records, publications, taken)


async def test_events_come_back_in_order_and_from_any_of_them_on(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0, 3))
    assert await journal.append(step("r", 3, 2)) is Outcome.DONE
    assert await journal.events("r", 0) == [f"r:{n}".encode() for n in range(1, 6)]
    assert await journal.events("r", 3, limit=1) == [b"r:4"]
    assert await journal.events("r", 5) == []
    assert [at for at, _ in await journal.inputs("r")] == [0, 3]


async def test_durability_2_an_append_that_was_folded_from_something_else_is_stale_and_stores_nothing(
    journal: Journal,
) -> None:
    await journal.create(new("r"), step("r", 0, 2))
    assert await journal.append(step("r", 1, batch="x")) is Outcome.STALE
    assert await journal.append(step("r", 5, batch="x")) is Outcome.STALE
    assert len(await journal.events("r", 0)) == 2


async def test_durability_3_the_same_batch_again_is_done_and_stored_once(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    again = step("r", 1)
    assert await journal.append(again) is Outcome.DONE
    assert await journal.append(again) is Outcome.DONE
    assert len(await journal.events("r", 0)) == 2


async def test_durability_3_an_append_under_an_epoch_that_is_over_is_deposed(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    row = await journal.claim("r", "other")
    assert row is not None
    assert (row.epoch, row.owner) == (2, "other")
    assert await journal.append(step("r", 1, epoch=1)) is Outcome.DEPOSED
    assert await journal.append(step("r", 1, epoch=2)) is Outcome.DONE
    assert await journal.append(step("nobody", 1)) is Outcome.DEPOSED


async def test_a_run_that_has_ended_cannot_be_claimed_and_is_not_open(journal: Journal) -> None:
    await journal.create(new("a"), step("a", 0))
    await journal.create(new("b"), step("b", 0))
    await journal.append(step("a", 1, ended=True, state=3))
    assert await journal.open_runs() == ["b"]
    assert await journal.claim("a", "other") is None
    assert await journal.claim("nobody", "other") is None


async def test_the_same_request_id_gives_the_same_run_and_another_payload_is_refused(journal: Journal) -> None:
    assert await journal.create(new("r1", "q"), step("r1", 0)) == ("r1", True)
    assert await journal.create(new("r2", "q"), step("r2", 0)) == ("r1", False)
    assert await journal.run("r2") is None
    with pytest.raises(RequestIdReused) as refused:
        await journal.create(new("r3", "q", b"other"), step("r3", 0))
    assert refused.value.metadata["run_id"] == "r1"
    assert await journal.create(new("r4"), step("r4", 0)) == ("r4", True), "no id: always a new run"
    assert await journal.create(new("r5"), step("r5", 0)) == ("r5", True)


async def test_two_submits_with_one_id_at_the_same_moment_make_one_run(journal: Journal) -> None:
    made = await asyncio.gather(*(journal.create(new(f"r{n}", "q"), step(f"r{n}", 0)) for n in range(20)))
    assert len({run_id for run_id, _ in made}) == 1
    assert sum(created for _, created in made) == 1


async def test_durability_4_appends_of_many_runs_at_once_all_arrive_and_one_that_fails_hurts_no_other(
    journal: Journal,
) -> None:
    await asyncio.gather(*(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(50)))
    steps = [step(f"r{n}", 1 if n % 7 else 9, batch=f"b{n}") for n in range(50)]
    outcomes = await asyncio.gather(*(journal.append(one) for one in steps))
    for n, outcome in enumerate(outcomes):
        assert outcome is (Outcome.DONE if n % 7 else Outcome.STALE)
        assert len(await journal.events(f"r{n}", 0)) == (2 if n % 7 else 1)


async def test_runs_are_listed_newest_first_by_tenant_session_and_state(journal: Journal) -> None:
    for n in range(5):
        await journal.create(new(f"r{n}", session="s" if n % 2 else ""), step(f"r{n}", 0, time=100.0 + n))
    await journal.append(step("r4", 1, ended=True, state=3, time=200.0))
    assert [row.run_id for row in await journal.runs(tenant="default")] == ["r4", "r3", "r2", "r1", "r0"]
    assert [row.run_id for row in await journal.runs(tenant="default", session_id="s")] == ["r3", "r1"]
    assert [row.run_id for row in await journal.runs(tenant="default", states=[3])] == ["r4"]
    page = await journal.runs(tenant="default", limit=2)
    rest = await journal.runs(tenant="default", before=(page[-1].created_at, page[-1].run_id))
    assert [row.run_id for row in rest] == ["r2", "r1", "r0"]
    assert await journal.runs(tenant="somebody else") == []


async def test_records_keep_their_order_and_place(journal: Journal) -> None:
    records = tuple(RecordRow("ab"[n % 2], f"{n}".encode()) for n in range(4))
    await journal.create(new("r"), step("r", 0, records=records[:2]))
    await journal.append(step("r", 1, records=records[2:]))
    assert await journal.records("r") == [(1, b"0"), (2, b"1"), (3, b"2"), (4, b"3")]
    assert await journal.records("r", role="b") == [(2, b"1"), (4, b"3")]
    assert await journal.records("r", after=2, limit=1) == [(3, b"2")]


async def test_durability_15_a_publication_stays_in_the_outbox_until_it_is_confirmed(journal: Journal) -> None:
    one = Publication("scope", "role", "r.1", 2, "text")
    await journal.create(new("r"), step("r", 0))
    await journal.append(step("r", 1, publications=(one,), ended=True))
    (row,) = await journal.outbox("owner")
    assert (row.run_id, row.epoch, row.publication) == ("r", 1, one)
    assert (await journal.unpublished("scope"), await journal.unpublished("r")) == (True, False)
    await journal.published([row.row_id])
    assert await journal.outbox("owner") == []
    assert not await journal.unpublished("scope")


async def test_durability_7_an_ended_run_is_compacted_to_its_summary_and_later_deleted_but_its_request_id_stays_a_day(
    journal: Journal,
) -> None:
    await journal.create(new("old", "q"), step("old", 0, ended=True, time=100.0))
    await journal.create(new("open"), step("open", 0, time=100.0))
    assert await journal.compactable(150.0) == ["old"]
    await journal.compact("old", b"summary")
    row = await journal.run("old")
    assert row is not None
    assert (row.compacted, row.summary) == (True, b"summary")
    assert await journal.events("old", 0) == []
    assert await journal.compactable(150.0) == []
    assert await journal.delete(150.0, now=1000.0, request_ttl=86_400.0) == 1
    assert await journal.run("old") is None
    assert await journal.run("open") is not None
    assert await journal.create(new("again", "q"), step("again", 0)) == ("old", False)
    await journal.delete(150.0, now=1000.0 + 86_401.0, request_ttl=86_400.0)
    assert await journal.create(new("again", "q"), step("again", 0)) == ("again", True)


@pytest.mark.parametrize("store", STORES[1:])
async def test_what_was_acknowledged_is_there_after_the_store_is_opened_again(
    store: str, place: Callable[[str], Journal]
) -> None:
    first = place(store)
    await first.open()
    await first.create(new("r", "q"), step("r", 0, 2))
    await first.close()
    second = place(store)
    await second.open()
    assert len(await second.events("r", 0)) == 2
    assert await second.open_runs() == ["r"]
    assert await second.create(new("x", "q"), step("x", 0)) == ("r", False)
    await second.close()


async def test_durability_5_a_second_process_cannot_open_the_same_file(place: Callable[[str], Journal]) -> None:
    first, second = place("sqlite-full"), place("sqlite-full")
    await first.open()
    with pytest.raises(FailedPrecondition, match="in use by another orchestrator"):
        await second.open()
    await first.close()
    await second.open()
    await second.close()
