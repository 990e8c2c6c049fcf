"""The contract of every journal, tested on each store. Names with durability_N test line DN of docs/durability.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from archon.errors import AlreadyExists, FailedPrecondition, RequestIdReused
from archon_services.orchestrator.journal import Journal, Outcome, Publication, RecordRow, SameRequest, StoredStep
from archon_services.orchestrator.journal.framing import events_in
from archon_services.orchestrator.journal.page import OPENING_BYTES
from archon_services.orchestrator.journal.rows import EndedRun
from tests.fixtures.journal import commit_group, create, creation, event, new_run, step, store, stored_events

DURABLE = ["sqlite-full", "sqlite-normal", "postgres"]


async def test_steps_come_back_in_order_from_any_event_on(journal: Journal) -> None:
    await create(journal, "r", count=3)
    assert await store(journal, step("r", 3, 2)) is Outcome.DONE
    assert await stored_events(journal, "r") == [event("r", seq) for seq in range(1, 6)]
    first, second = await journal.steps("r")
    assert (first.base, first.last_seq, second.base, second.last_seq) == (0, 3, 3, 5)
    assert await journal.steps("r", 3, limit=1) == [second]
    assert events_in(second.data) == [b"r:4", b"r:5"]
    assert await journal.steps("r", 5) == []
    assert await journal.inputs("r") == [(0, b"in 0"), (3, b"in 3")]


async def test_steps_after_an_event_inside_a_step_begin_with_it(journal: Journal) -> None:
    await create(journal, "r", count=3)
    for base, count in ((3, 2), (5, 1), (6, 4)):
        assert await store(journal, step("r", base, count)) is Outcome.DONE
    bases = {after: [row.base for row in await journal.steps("r", after)] for after in range(11)}
    expected = {after: [base for base, end in ((0, 3), (3, 5), (5, 6), (6, 10)) if end > after] for after in range(11)}
    assert bases == expected
    pages: list[StoredStep] = []
    while page := await journal.steps("r", pages[-1].last_seq if pages else 0, limit=2):
        assert len(page) <= 2
        pages += page
    assert [(row.base, row.last_seq) for row in pages] == [(0, 3), (3, 5), (5, 6), (6, 10)]
    assert await journal.steps("unknown") == []


async def test_durability_2_a_step_from_another_base_is_stale(journal: Journal) -> None:
    await create(journal, "r", count=2)
    assert await store(journal, step("r", 1, batch="x")) is Outcome.STALE
    assert await store(journal, step("r", 5, batch="x")) is Outcome.STALE
    assert await store(journal, step("r", 5, batch="x", changed=True)) is Outcome.STALE
    assert len(await stored_events(journal, "r")) == 2


async def test_durability_3_the_same_step_again_is_done_stored_once(journal: Journal) -> None:
    await create(journal, "r")
    for changed in (False, True):
        base = 1 + changed
        again = step("r", base, changed=changed, records=(RecordRow("a", b"x"),))
        assert await store(journal, again) is Outcome.DONE
        assert await store(journal, again) is Outcome.DONE
        assert len(await stored_events(journal, "r")) == base + 1
        assert len(await journal.records("r")) == base


@pytest.mark.parametrize("request_id", ["", "q"])
async def test_durability_3_the_same_creation_again_is_done(journal: Journal, request_id: str) -> None:
    new = new_run("r", request_id)
    first = creation(new, 2, records=(RecordRow("a", b"x"),), publications=(Publication("s", "a", "r.1", 2),))
    for _ in range(2):
        assert list(await commit_group(journal, first)) == [Outcome.DONE]
    assert await stored_events(journal, "r") == [event("r", 1), event("r", 2)]
    assert (len(await journal.records("r")), len(await journal.outbox("owner"))) == (1, 1)
    assert list(await commit_group(journal, first, creation(new_run("other")))) == [Outcome.DONE, Outcome.DONE]


async def test_durability_3_a_step_under_an_old_epoch_is_deposed(journal: Journal) -> None:
    await create(journal, "r")
    row = await journal.claim("r", "other")
    assert row is not None
    assert (row.epoch, row.owner) == (2, "other")
    for changed in (False, True):
        assert await store(journal, step("r", 1, epoch=1, changed=changed)) is Outcome.DEPOSED
    assert await store(journal, step("r", 1, epoch=2)) is Outcome.DONE
    assert await store(journal, step("unknown", 1)) is Outcome.DEPOSED


async def test_an_ended_run_cannot_be_claimed_and_is_not_open(journal: Journal) -> None:
    await create(journal, "a")
    await create(journal, "b")
    await store(journal, step("a", 1, ended=True, state=3))
    assert await journal.open_runs() == ["b"]
    assert await journal.claim("a", "other") is None
    assert await journal.claim("unknown", "other") is None


async def test_a_repeated_request_id_gives_its_run(journal: Journal) -> None:
    assert await create(journal, "r1", "q") is Outcome.DONE
    assert await create(journal, "r2", "q") == SameRequest("r1")
    assert await journal.run("r2") is None
    assert await stored_events(journal, "r2") == []
    with pytest.raises(RequestIdReused) as refused:
        await store(journal, creation(new_run("r3", "q", b"other")))
    assert refused.value.metadata["run_id"] == "r1"
    assert await create(journal, "r4") is Outcome.DONE, "without a request id every submit is a new run"
    assert await create(journal, "r5") is Outcome.DONE
    assert await store(journal, creation(new_run("r6", "q", tenant="another"))) is Outcome.DONE


async def test_a_run_id_that_is_taken_is_refused(journal: Journal) -> None:
    await create(journal, "r", "q")
    with pytest.raises(AlreadyExists) as refused:
        await store(journal, creation(new_run("r", "another"), batch="another"))
    assert refused.value.metadata["run_id"] == "r"
    assert await journal.request("default", "another") is None, "a refused creation stores no request id"
    assert await stored_events(journal, "r") == [event("r", 1)]


async def test_concurrent_creations_of_one_request_make_one_run(journal: Journal) -> None:
    results = await asyncio.gather(*(create(journal, f"r{n}", "q") for n in range(20)))
    (created,) = [f"r{n}" for n, result in enumerate(results) if result is Outcome.DONE]
    assert [result for result in results if result is not Outcome.DONE] == [SameRequest(created)] * 19


async def test_a_group_with_one_request_id_twice_makes_one_run(journal: Journal) -> None:
    results = await commit_group(journal, *(creation(new_run(f"r{n}", "q")) for n in range(5)))
    (created,) = [f"r{n}" for n, result in enumerate(results) if result is Outcome.DONE]
    assert [result for result in results if result is not Outcome.DONE] == [SameRequest(created)] * 4
    assert [row.run_id for row in await journal.runs(tenant="default")] == [created]


async def test_durability_4_steps_of_many_runs_at_once_all_arrive(journal: Journal) -> None:
    await asyncio.gather(*(create(journal, f"r{n}") for n in range(50)))
    steps = [step(f"r{n}", 1 if n % 7 else 9, batch=f"b{n}", changed=n % 2 > 0) for n in range(50)]
    outcomes = await asyncio.gather(*(store(journal, each) for each in steps))
    for n, outcome in enumerate(outcomes):
        assert outcome is (Outcome.DONE if n % 7 else Outcome.STALE)
        assert len(await stored_events(journal, f"r{n}")) == (2 if n % 7 else 1)


async def test_runs_are_listed_newest_first_and_filtered(journal: Journal) -> None:
    for n in range(5):
        new = new_run(f"r{n}", session="s" if n % 2 else "")
        await store(journal, creation(new, time=100.0 + n))
    await store(journal, step("r4", 1, ended=True, state=3, time=200.0))
    assert [row.run_id for row in await journal.runs(tenant="default")] == ["r4", "r3", "r2", "r1", "r0"]
    assert [row.run_id for row in await journal.runs(tenant="default", session_id="s")] == ["r3", "r1"]
    assert [row.run_id for row in await journal.runs(tenant="default", states=[3])] == ["r4"]
    page = await journal.runs(tenant="default", limit=2)
    rest = await journal.runs(tenant="default", before=(page[-1].created_at, page[-1].run_id))
    assert [row.run_id for row in rest] == ["r2", "r1", "r0"]
    assert await journal.runs(tenant="another") == []


async def test_runs_since_a_time_and_their_openings(journal: Journal) -> None:
    large = b"x" * 100_000
    for n in range(4):
        await store(journal, creation(new_run(f"r{n}"), time=100.0 + n))
    await store(journal, step("r3", 1, time=200.0))
    since = [row.run_id for row in await journal.runs(tenant="default", since=102.0)]
    assert since == ["r3", "r2"], "the time itself is within"
    assert [row.run_id for row in await journal.runs(tenant="default", since=101.0, before=(103.0, "r3"))] == [
        "r2",
        "r1",
    ]
    openings = await journal.openings(["r0", "r3", "unknown"])
    assert set(openings) == {"r0", "r3"}
    assert openings["r3"] == (await journal.steps("r3", limit=1))[0].data
    assert await journal.openings([]) == {}
    await store(journal, replace(creation(new_run("large")), data=large))
    assert await journal.openings(["large"]) == {"large": large[:OPENING_BYTES]}


async def test_runs_keep_their_order_when_the_clock_is_set_back(journal: Journal) -> None:
    assert await journal.last_run_id() == ""
    for run_id, time in (("c", 900.0), ("b", 100.0), ("a", 101.0), ("d", 1000.0)):
        await store(journal, creation(new_run(run_id), time=time))
    await store(journal, creation(replace(new_run("x"), tenant="another"), time=1.0))
    assert [row.run_id for row in await journal.runs(tenant="default")] == ["d", "a", "b", "c"]
    (page,) = await journal.runs(tenant="default", limit=1)
    rest = await journal.runs(tenant="default", before=(page.created_at, page.run_id))
    assert [row.run_id for row in rest] == ["a", "b", "c"]
    assert [row.created_at for row in await journal.runs(tenant="another")] == [1.0]
    assert await journal.last_run_id() == "x"


async def test_an_end_in_the_future_counts_from_the_present_on(journal: Journal) -> None:
    for run_id, ended_at in (("past", 50.0), ("future", 900.0)):
        await create(journal, run_id)
        await store(journal, step(run_id, 1, ended=True, state=3, time=ended_at))
    await create(journal, "open")
    await journal.bound_times(100.0)
    ended = {row.run_id: row.ended_at for row in await journal.runs(tenant="default")}
    assert ended == {"past": 50.0, "future": 100.0, "open": 0.0}


async def test_a_page_of_steps_or_records_ends_with_the_one_that_reaches_its_bytes(journal: Journal) -> None:
    await store(journal, creation(new_run("r")))
    for base in range(1, 6):
        await store(journal, step("r", base, records=(RecordRow("role", b"y" * 50), RecordRow("role", b"y" * 50))))
    size = len((await journal.steps("r", 1))[0].data)
    assert [step.base for step in await journal.steps("r", 0, 500, 1)] == [0], "at least one"
    assert [step.base for step in await journal.steps("r", 1, 500, 2 * size)] == [1, 2]
    assert [step.base for step in await journal.steps("r", 1, 500, 2 * size + 1)] == [1, 2, 3]
    assert [step.base for step in await journal.steps("r", 1, 2, 10**9)] == [1, 2]
    assert [n for n, _ in await journal.records("r", after=2, max_bytes=51)] == [3, 4]
    assert [n for n, _ in await journal.records("r", role="role", after=9, max_bytes=1)] == [10]


async def test_the_size_of_a_run_is_that_of_its_steps_and_records(journal: Journal) -> None:
    steps = [creation(new_run("r")), step("r", 1, records=(RecordRow("role", b"y" * 50),))]
    for stored in steps:
        await store(journal, stored)
    assert await journal.size("r") == sum(stored.size for stored in steps)
    assert await journal.size("unknown") == 0


async def test_records_keep_their_order_and_ordinals(journal: Journal) -> None:
    records = tuple(RecordRow("ab"[n % 2], f"{n}".encode()) for n in range(4))
    await store(journal, creation(new_run("r"), records=records[:2]))
    await store(journal, step("r", 1, records=records[2:]))
    assert await journal.records("r") == [(1, b"0"), (2, b"1"), (3, b"2"), (4, b"3")]
    assert await journal.records("r", role="b") == [(2, b"1"), (4, b"3")]
    assert await journal.records("r", after=2, limit=1) == [(3, b"2")]


async def test_durability_15_a_publication_waits_to_be_confirmed(journal: Journal) -> None:
    publication = Publication("scope", "role", "r.1", 3)
    await create(journal, "r")
    await store(journal, step("r", 1, 3, publications=(publication,), ended=True))
    (row,) = await journal.outbox("owner")
    assert (row.run_id, row.epoch, row.publication, row.content) == ("r", 1, publication, None)
    assert events_in(row.data) == [b"r:2", b"r:3", b"r:4"], "the row has the step that holds the event"
    assert (await journal.unpublished("scope"), await journal.unpublished("r")) == (True, False)
    await journal.published([row.row_id])
    assert await journal.outbox("owner") == []
    assert not await journal.unpublished("scope")


async def test_publications_are_read_by_scope(journal: Journal) -> None:
    scopes = ("s", "it's", "ü", "s")
    await store(
        journal,
        creation(new_run("r"), 4, publications=tuple(Publication(s, "a", "r.1", n) for n, s in enumerate(scopes, 1))),
    )

    async def seqs(**options: Any) -> list[int]:
        return [row.publication.seq for row in await journal.outbox("owner", **options)]

    assert await seqs() == [1, 2, 3, 4]
    assert await seqs(scope="s") == [1, 4]
    assert await seqs(scope="s", limit=1) == [1]
    assert await seqs(without=["s"]) == [2, 3]
    assert await seqs(without={"it's", "ü"}, limit=1) == [1]
    assert await seqs(scope="none") == []


async def test_each_publication_comes_with_the_step_of_its_event(journal: Journal) -> None:
    await store(journal, creation(new_run("r"), 2, publications=(Publication("s", "a", "r.1", 2),)))
    await store(journal, step("r", 2, 3, publications=tuple(Publication("s", "b", "r.2", seq) for seq in (3, 5))))
    await store(journal, step("r", 5))
    rows = await journal.outbox("owner")
    assert [(row.publication.seq, events_in(row.data)[0]) for row in rows] == [(2, b"r:1"), (3, b"r:3"), (5, b"r:3")]
    assert len(await journal.outbox("owner", limit=2)) == 2


async def test_durability_15_a_run_with_publications_is_kept_whole(journal: Journal) -> None:
    publication = Publication("scope", "role", "r.1", 2)
    await create(journal, "r")
    await store(journal, step("r", 1, publications=(publication,), ended=True, time=100.0))
    await store(journal, creation(new_run("other"), ended=True, time=100.0))
    assert await journal.compactable(150.0) == ["other"]
    (row,) = await journal.outbox("owner")
    await journal.published([row.row_id])
    assert sorted(await journal.compactable(150.0)) == ["other", "r"]


async def test_the_runs_that_ended_last_come_first(journal: Journal) -> None:
    for run_id, owner, ended in (("early", "a", True), ("late", "b", True), ("open", "a", False)):
        new = replace(new_run(run_id), owner=owner)
        await store(journal, creation(new, ended=ended, time=200.0 if run_id == "late" else 100.0))
    assert await journal.last_ended(10) == [EndedRun("late", "b", 200.0), EndedRun("early", "a", 100.0)]
    assert await journal.last_ended(1) == [EndedRun("late", "b", 200.0)]


async def test_deleting_a_run_deletes_all_its_rows(journal: Journal) -> None:
    publication = Publication("scope", "role", "r.1", 1)
    await store(journal, creation(new_run("kept"), publications=(publication,)))
    await store(journal, creation(new_run("r"), publications=(publication,), records=(RecordRow("a", b"x"),)))
    await journal.post("r", b"command")
    await store(journal, step("r", 1, ended=True, time=100.0))
    assert await journal.delete(150.0, now=200.0, request_ttl=60.0) == 1
    assert [row.run_id for row in await journal.outbox("owner")] == ["kept"]
    assert await journal.records("r") == []
    assert (await journal.steps("r"), await journal.inputs("r")) == ([], [])
    await create(journal, "r")
    assert await journal.posted("owner") == [], "commands of a deleted run are deleted"


async def test_durability_7_a_request_id_outlives_its_deleted_run(journal: Journal) -> None:
    await store(journal, creation(new_run("old", "q"), ended=True, time=100.0))
    await store(journal, creation(new_run("open"), time=100.0))
    assert await journal.compactable(150.0) == ["old"]
    await journal.compact("old", b"summary")
    row = await journal.run("old")
    assert row is not None
    assert (row.compacted, row.summary) == (True, b"summary")
    assert await stored_events(journal, "old") == []
    assert await journal.inputs("old") == []
    assert await journal.compactable(150.0) == []
    assert await journal.delete(150.0, now=1000.0, request_ttl=86_400.0) == 1
    assert await journal.run("old") is None
    assert await journal.run("open") is not None
    assert await create(journal, "again", "q") == SameRequest("old")
    await journal.delete(150.0, now=1000.0 + 86_401.0, request_ttl=86_400.0)
    assert await create(journal, "again", "q") is Outcome.DONE


@pytest.mark.parametrize("durable", DURABLE)
async def test_an_acknowledged_run_is_there_after_reopening(durable: str, place: Callable[[str], Journal]) -> None:
    first = place(durable)
    await first.open()
    await create(first, "r", "q", 2)
    await first.close()
    second = place(durable)
    await second.open()
    assert await stored_events(second, "r") == [event("r", 1), event("r", 2)]
    assert await second.open_runs() == ["r"]
    assert await create(second, "x", "q") == SameRequest("r")
    await second.close()


async def test_durability_5_a_second_process_cannot_open_the_file(place: Callable[[str], Journal]) -> None:
    first, second = place("sqlite-full"), place("sqlite-full")
    await first.open()
    with pytest.raises(FailedPrecondition, match="in use by another orchestrator"):
        await second.open()
    await first.close()
    await second.open()
    await second.close()
