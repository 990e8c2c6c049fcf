"""Triggers and their fires, tested on each store."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from archon_services.orchestrator.journal import EndedFire, FireRow, Journal, OwnerRow, TriggerRow
from archon_services.orchestrator.journal.memory import triggers as memory_triggers
from archon_services.orchestrator.journal.sqlite import triggers as sqlite_triggers
from tests.fixtures.journal import creation, new_run, step, store

KIND = "schedule"


def row(name: str = "a", revision: int = 1, due: float = 10.0, tenant: str = "default") -> TriggerRow:
    return TriggerRow(tenant, KIND, name, revision, due, f"{name}{revision}".encode())


def fire(number: int, run_id: str = "", *, running: bool = False) -> FireRow:
    return FireRow(f"t{number}", number, run_id, running, b"data")


async def test_of_replicas_that_change_a_trigger_at_once_one_does(journal: Journal) -> None:
    created = [journal.put_trigger(row(), [fire(number)]) for number in range(1, 5)]
    assert sorted(await asyncio.gather(*created)) == [False] * 3 + [True]
    [first] = await journal.fires("default", KIND, "a")
    calls = [journal.put_trigger(row(revision=2, due=20.0 + number), [fire(number)]) for number in range(1, 7)]
    assert sorted(await asyncio.gather(*calls)) == [False] * 5 + [True]
    stored = await journal.trigger("default", KIND, "a")
    assert stored is not None and stored.revision == 2 and stored.data == b"a2"
    fires = {each.fire_id for each in await journal.fires("default", KIND, "a")}
    assert fires <= {first.fire_id, f"t{stored.due - 20:.0f}"}, "a change that lost has stored no fire"
    assert not await journal.put_trigger(row(revision=4)), "a revision was left out"
    assert not await journal.put_trigger(row(name="b", revision=2)), "there is none yet"


async def test_triggers_are_listed_by_name_and_tenant(journal: Journal) -> None:
    for name in ("b", "a", "B", "a-1"):
        assert await journal.put_trigger(row(name))
    assert await journal.put_trigger(row("c", tenant="acme"))
    assert [each.name for each in await journal.triggers("default", KIND)] == ["B", "a", "a-1", "b"]
    assert [each.name for each in await journal.triggers("default", KIND, "a", 1)] == ["a-1"]
    assert await journal.triggers("default", "hook") == []
    assert await journal.trigger_count("default", KIND) == 4
    assert await journal.trigger("acme", KIND, "a") is None


async def test_triggers_that_are_due_are_claimed_until_their_change(journal: Journal) -> None:
    for owner in ("one", "two"):
        await journal.enter(OwnerRow(owner, "", 1, 0))
    for name, due in (("late", 1.0), ("due", 5.0), ("later", 6.0), ("never", math.inf)):
        assert await journal.put_trigger(row(name, due=due))
    assert await journal.next_due(KIND) == 1.0
    assert await journal.next_due("hook") == math.inf
    claimed = await journal.claim_triggers(KIND, 5.0, "two", 10)
    assert [each.name for each in claimed] == ["late", "due"]
    assert claimed == await journal.claim_triggers(KIND, 5.0, "two", 10), "its own claim"
    if journal.shared:
        assert await journal.claim_triggers(KIND, 5.0, "one", 10) == []
        assert await journal.put_trigger(row("due", revision=2, due=5.0), owner="two")
        assert await journal.claim_triggers(KIND, 5.0, "one", 10) == [], "the change keeps the claim"
        assert await journal.put_trigger(row("due", revision=3, due=5.0))
        assert [each.name for each in await journal.claim_triggers(KIND, 5.0, "one", 10)] == ["due"]
        assert await journal.expire("two", 0)
        assert [each.name for each in await journal.claim_triggers(KIND, 5.0, "one", 10)] == ["late", "due"]
    assert await journal.claim_triggers("hook", 5.0, "one", 10) == []


async def test_fires_are_listed_newest_first_and_bounded(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_triggers, sqlite_triggers):
        monkeypatch.setattr(module, "MAX_FIRES", 3)
    numbers = range(1, 1_005 if type(journal).__name__.startswith("Postgres") else 7)
    assert await journal.put_trigger(row(), [fire(number, f"r{number}", running=number == 1) for number in numbers])
    found = await journal.fires("default", KIND, "a", limit=2_000)
    last = numbers[-1]
    assert [each.number for each in found[:3]] == [last, last - 1, last - 2]
    assert found[-1].number == 1, "its run is in progress"
    assert len(found) in (4, 1_001)
    assert await journal.fires("default", KIND, "a", before=last, limit=1) == [fire(last - 1, f"r{last - 1}")]
    assert await journal.fires_by_id("default", KIND, "a", ["t1", "t2", "none"]) == [fire(1, "r1", running=True)]
    assert await journal.put_trigger(row(revision=2), [replace(fire(1, "r1"), data=b"ended")])
    assert len(await journal.fires("default", KIND, "a", limit=2_000)) in (3, 1_000)


async def test_fires_whose_run_has_ended_or_is_gone_are_found(journal: Journal) -> None:
    await store(journal, creation(new_run("going")))
    await store(journal, creation(new_run("over"), time=50.0))
    await store(journal, step("over", 1, ended=True, state=4))
    fires = [fire(1, "going", running=True), fire(2, "over", running=True), fire(3, "gone", running=True), fire(4, "x")]
    assert await journal.put_trigger(row(), fires)
    ended = await journal.ended_fires(KIND, 10)
    assert sorted((each.run_id, each.state) for each in ended) == [("gone", 0), ("over", 4)]
    assert ended[0].tenant == "default" and ended[0].name == "a" and isinstance(ended[0], EndedFire)
    assert len(await journal.ended_fires(KIND, 1)) == 1
    assert await journal.ended_fires("hook", 10) == []
    assert not await journal.delete_trigger("default", KIND, "a", 2), "another revision"
    assert await journal.delete_trigger("default", KIND, "a", 1)
    assert await journal.ended_fires(KIND, 10) == [] == await journal.fires("default", KIND, "a")
