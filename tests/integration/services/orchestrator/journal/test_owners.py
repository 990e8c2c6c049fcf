"""Owners of runs and the commands that wait for them, tested on each store."""

from __future__ import annotations

import asyncio
import time

from archon_services.common import machine
from archon_services.orchestrator.journal import Journal, MemoryJournal, Outcome, OwnerRow, Publication
from tests.fixtures.journal import create, creation, new_run, step, store


def owner_row(owner: str, revision: int = 1) -> OwnerRow:
    return OwnerRow(owner, f"{owner}:7100", revision, 0)


async def test_durability_8_an_expired_incarnation_never_comes_back(journal: Journal) -> None:
    await journal.enter(owner_row("owner"))
    assert await journal.live_owners() == [OwnerRow("owner", "owner:7100", 1, 0)]
    assert await journal.beat("owner", "moved:1")
    assert await journal.live_owners() == [OwnerRow("owner", "moved:1", 1, 1)]
    assert not await journal.expire("owner", 0), "its heartbeat counter has increased since"
    assert await journal.expire("owner", 1)
    assert await journal.expire("owner", 1), "it is already expired for a second observer"
    assert not await journal.beat("owner", "moved:1")
    assert await journal.live_owners() == []


async def test_durability_9_a_run_is_claimed_only_without_live_owner(journal: Journal) -> None:
    await journal.enter(owner_row("owner"))
    await create(journal, "r")
    assert await journal.claim("r", "other") is None
    assert await journal.claim_some("other", 10, 1) == []
    own = await journal.claim("r", "owner")
    assert own is not None
    assert own.epoch == 2
    await journal.leave("owner")
    (claimed,) = await journal.claim_some("other", 10, 1)
    assert (claimed.owner, claimed.epoch) == ("other", 3)


async def test_a_claim_tells_which_runs_were_released_on_purpose(journal: Journal) -> None:
    for owner in ("stopped", "died"):
        await journal.enter(owner_row(owner))
        await store(journal, creation(new_run(f"of-{owner}", owner=owner)))
    await store(journal, creation(new_run("ended", owner="stopped"), ended=True, state=3))
    await journal.leave("stopped")
    await journal.enter(owner_row("next"))
    if journal.shared:
        assert await journal.expire("died", 0)
    claimed = await journal.claim_some("next", 10, 1)
    assert {row.run_id: row.released for row in claimed} == {"of-stopped": True, "of-died": False}
    row = await journal.run("of-stopped")
    assert row is not None and (row.owner, row.released) == ("next", False)
    ended = await journal.run("ended")
    assert ended is not None and ended.owner == "stopped"
    again = await journal.claim("of-stopped", "next")
    assert again is not None and not again.released, "it was claimed since"
    await journal.leave("next")
    released = await journal.claim("of-stopped", "last")
    assert released is not None and released.released


async def test_durability_14_a_run_released_on_purpose_is_not_claimed_in_vain(journal: Journal) -> None:
    await create(journal, "r")
    for _ in range(5):
        await journal.enter(owner_row("a"))
        (row,) = await journal.claim_some("a", 10, 1)
        assert row.stalled == 0
        await journal.leave("a")


async def test_durability_10_claims_are_limited_by_age_and_revision(journal: Journal) -> None:
    for number in range(5):
        await store(journal, creation(new_run(f"r{number}"), time=100.0 + number))
    await store(journal, creation(new_run("done"), ended=True, state=3))
    assert [row.run_id for row in await journal.claim_some("a", 2, 1)] == ["r0", "r1"]
    await journal.enter(owner_row("a"))
    assert await journal.claim_some("b", 10, 0) == []
    assert [row.run_id for row in await journal.claim_some("b", 10, 1)] == ["r2", "r3", "r4"]
    assert await journal.open_runs("a") == ["r0", "r1"]
    assert await journal.open_runs() == [f"r{number}" for number in range(5)]


async def test_durability_7_a_claimed_run_keeps_the_newer_revision(journal: Journal) -> None:
    await create(journal, "r")
    assert await journal.newer_runs(1, 10) == []
    assert [row.revision for row in await journal.claim_some("new", 10, 2)] == [2]
    await store(journal, step("r", 1, epoch=2))
    assert await journal.claim_some("old", 10, 1) == []
    assert await journal.newer_runs(1, 10) == ["r"]
    assert await journal.newer_runs(2, 10) == []
    await journal.enter(owner_row("new", 2))
    assert await journal.newer_runs(1, 10) == [], "its owner is alive"
    await journal.leave("new")
    assert [row.revision for row in await journal.claim_some("newer", 10, 3)] == [3]


async def test_durability_7_a_newer_run_is_left_for_its_release_to_compact(journal: Journal) -> None:
    await store(journal, creation(new_run("old"), time=100.0, ended=True, state=3))
    await store(journal, creation(new_run("new", revision=2), time=100.0, ended=True, state=3))
    assert await journal.compactable(200.0, revision=1) == ["old"]
    assert sorted(await journal.compactable(200.0, revision=2)) == ["new", "old"]


async def test_concurrent_claims_get_different_runs(journal: Journal) -> None:
    for number in range(20):
        await create(journal, f"r{number}")
    await journal.enter(owner_row("a"))
    batches = await asyncio.gather(*(journal.claim_some("a", 7, 1) for _ in range(4)))
    claimed = [row.run_id for rows in batches for row in rows]
    assert len(claimed) == len(set(claimed)) == 20


async def test_durability_14_claims_without_an_event_are_counted(journal: Journal) -> None:
    await create(journal, "r")
    counted = []
    for number in range(4):
        row = await journal.claim("r", "owner")
        assert row is not None
        counted.append(row.stalled)
        if number == 1:
            assert await store(journal, step("r", 1, epoch=row.epoch)) is Outcome.DONE
    assert counted == [0, 1, 0, 1]


async def test_durability_14_every_kind_of_step_resets_the_count(journal: Journal) -> None:
    await store(journal, creation(new_run("r"), 2))
    epoch, base, counted, sequences = 1, 2, [], []
    for changed in (None, False, None, True, None, None):
        if changed is not None:
            assert await store(journal, step("r", base, 3, epoch=epoch, changed=changed)) is Outcome.DONE
            base += 3
        (row,) = await journal.claim_some("owner", 10, 1)
        epoch = row.epoch
        counted.append(row.stalled)
        sequences.append(row.last_seq)
    assert counted == [0, 0, 1, 0, 1, 2]
    assert sequences == [2, 5, 5, 8, 8, 8]


async def test_the_last_event_is_derived_from_the_last_step(journal: Journal) -> None:
    await store(journal, creation(new_run("r"), 2, time=100.0))
    base = 2
    for count, changed in ((1, False), (4, False), (2, True), (3, False)):
        assert await store(journal, step("r", base, count, changed=changed, state=2 + changed)) is Outcome.DONE
        base += count
        row = await journal.run("r")
        assert row is not None and row.last_seq == base
        assert [listed.last_seq for listed in await journal.runs(tenant="default")] == [base]
    claimed = await journal.claim("r", "owner")
    assert claimed is not None and (claimed.last_seq, claimed.epoch) == (base, 2)
    (claimed,) = await journal.claim_some("other", 10, 1)
    assert (claimed.last_seq, claimed.epoch) == (base, 3)
    assert await store(journal, step("r", base, 2, epoch=3, ended=True, time=200.0)) is Outcome.DONE
    await journal.compact("r", b"summary")
    row = await journal.run("r")
    assert row is not None and (row.last_seq, row.ended_at, row.compacted) == (base + 2, 200.0, True)


async def test_durability_13_a_command_waits_until_a_step_executes_it(journal: Journal) -> None:
    await journal.enter(owner_row("owner"))
    await create(journal, "r")
    row_ids = [await journal.post("r", b"first"), await journal.post("r", b"second")]
    await journal.post("unknown", b"?")
    first, second = await journal.posted("owner")
    assert row_ids == [first.row_id, second.row_id]
    assert [await journal.is_posted(row_id) for row_id in (*row_ids, 1_000_000)] == [True, True, False]
    assert [(row.run_id, row.data) for row in (first, second)] == [("r", b"first"), ("r", b"second")]
    assert await journal.posted("other") == []
    wrong = step("r", 7, commands=(first.row_id,))
    assert await store(journal, wrong) is Outcome.STALE
    assert len(await journal.posted("owner")) == 2, "a refused step deletes no command"
    assert await store(journal, step("r", 1, commands=(first.row_id,))) is Outcome.DONE
    assert [row.data for row in await journal.posted("owner")] == [b"second"]
    assert [await journal.is_posted(row_id) for row_id in row_ids] == [False, True]
    await journal.drop([second.row_id])
    assert await journal.posted("owner") == []


async def test_publications_without_a_live_owner_are_for_every_replica(journal: Journal) -> None:
    await journal.enter(owner_row("owner"))
    await store(journal, creation(new_run("r"), publications=(Publication("s", "a", "r.1", 1),)))
    assert len(await journal.outbox("owner")) == 1
    if journal.shared:
        assert await journal.outbox("other") == []
    await journal.leave("owner")
    assert len(await journal.outbox("other")) == 1


async def test_entering_an_unshared_store_expires_all_others() -> None:
    journal = MemoryJournal()
    await journal.enter(owner_row("a"))
    await journal.enter(owner_row("b"))
    assert [row.owner for row in await journal.live_owners()] == ["b"]


async def test_durability_23_a_store_has_its_own_clock(journal: Journal) -> None:
    before = time.time()
    first = await journal.now()
    # Earlier tests of this process may have moved its clock on.
    after = machine.wall_time()
    assert before - 0.1 <= first <= after + 0.1, "seconds since the epoch; here all stores are on one machine"
    assert await journal.now() > first
