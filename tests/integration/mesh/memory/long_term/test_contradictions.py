"""Entries that contradict earlier ones are marked when they are stored, listed, and decided about by their owner."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from archon.memory.long_term.contradiction import CONTRADICTION, DECIDED, Keep
from archon_mesh.memory.long_term import LongTermMemory, NewEntry
from archon_mesh.memory.long_term.model_judge import model_judge
from archon_mesh.memory.long_term.port import LongTermStore

ANA = {"user": "ana"}


@pytest.fixture
async def memory(store: LongTermStore) -> AsyncIterator[LongTermMemory]:
    async with LongTermMemory(store) as opened:
        yield opened


async def contents(memory: LongTermMemory) -> set[str]:
    return {entry.content for entry in await memory.recent()}


async def test_a_contradiction_is_marked_and_listed_with_its_reason(memory: LongTermMemory) -> None:
    old = await memory.store("Ana lives in Rome.", ANA)
    await memory.store("Ana likes fish.", ANA)
    new = await memory.store("Ana lives in Oslo.", ANA)
    [found] = await memory.contradictions()
    assert found.entry.id == new
    assert [entry.id for entry in found.earlier] == [old]
    assert found.reason == "two values of the same place of living"
    assert found.entry.is_intact
    assert await memory.contradictions({"user": "ben"}) == []


async def test_entries_of_other_users_and_tenants_are_not_compared(memory: LongTermMemory) -> None:
    await memory.store("I live in Rome.", ANA)
    await memory.store("I live in Oslo.", {"user": "ben"})
    await memory.store("I live in Bern.")
    await memory.of_tenant("acme").store("I live in Kyiv.", ANA)
    assert await memory.contradictions() == []
    assert await memory.of_tenant("acme").contradictions() == []


async def test_turns_report_and_are_not_compared(memory: LongTermMemory) -> None:
    await memory.store("The server has 8 cores.", {**ANA, "type": "turn"})
    await memory.store("The server has 16 cores.", {**ANA, "type": "preference"})
    await memory.store("The server has 32 cores.", {**ANA, "type": "finding"})
    assert await memory.contradictions() == []


async def test_a_subject_and_a_predicate_need_no_rule(memory: LongTermMemory) -> None:
    key = {**ANA, "subject": "db", "predicate": "engine"}
    await memory.store("Postgres it is", key)
    await memory.store("postgres  it is", key)
    await memory.store("We chose SQLite after all", key)
    [found] = await memory.contradictions()
    assert (found.reason, len(found.earlier)) == ("two values of engine of db", 2)


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (Keep.NEW, {"Ana lives in Oslo."}),
        (Keep.OLD, {"Ana lives in Rome."}),
        (Keep.BOTH, {"Ana lives in Rome.", "Ana lives in Oslo."}),
    ],
)
async def test_the_owner_keeps_one_or_both(memory: LongTermMemory, keep: Keep, left: set[str]) -> None:
    await memory.store("Ana lives in Rome.", ANA)
    new = await memory.store("Ana lives in Oslo.", ANA, 0.9)
    ids = await memory.resolve_contradiction(new, keep)
    assert await contents(memory) == left
    assert {entry.id for entry in await memory.recent()} == set(ids)
    assert await memory.contradictions() == []
    assert all("contradicts" not in entry.metadata for entry in await memory.recent())
    with pytest.raises((NotFound, FailedPrecondition)):
        await memory.resolve_contradiction(new, keep)


async def test_a_merged_text_takes_the_place_of_all(memory: LongTermMemory) -> None:
    await memory.store("Ana lives in Rome.", ANA)
    new = await memory.store("Ana lives in Oslo.", ANA)
    with pytest.raises(InvalidArgument):
        await memory.resolve_contradiction(new, merged="  ")
    [merged] = await memory.resolve_contradiction(new, merged="Ana moved from Rome to Oslo.")
    entry = await memory.get(merged)
    assert entry is not None
    assert await contents(memory) == {"Ana moved from Rome to Oslo."}
    assert entry.metadata == {**ANA, CONTRADICTION: DECIDED}


async def test_a_decision_that_failed_halfway_can_be_repeated(
    memory: LongTermMemory, store: LongTermStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.store("Ana lives in Rome.", ANA)
    new = await memory.store("Ana lives in Oslo.", ANA)
    with monkeypatch.context() as patch:

        async def down(entry_id: str) -> bool:
            raise Unavailable("down")

        patch.setattr(memory, "delete", down)
        with pytest.raises(Unavailable):
            await memory.resolve_contradiction(new, Keep.NEW)
    assert len(await memory.contradictions()) == 1, "nothing is lost, and it is open still"
    await memory.resolve_contradiction(new, Keep.NEW)
    assert await contents(memory) == {"Ana lives in Oslo."}


async def test_a_contradiction_ends_when_one_entry_is_gone(memory: LongTermMemory) -> None:
    old = await memory.store("Ana lives in Rome.", ANA)
    await memory.store("Ana lives in Oslo.", ANA)
    await memory.archive(old)
    assert await memory.contradictions() == []
    await memory.archive(old, False)
    assert len(await memory.contradictions()) == 1
    await memory.forget(user="ana")
    assert await memory.contradictions() == []


async def test_the_upkeep_leaves_the_decision_to_the_owner(memory: LongTermMemory) -> None:
    words = "in the big old house with the red door near the sea and the harbour"
    await memory.store(f"Ana is happy {words}.", ANA)
    await memory.store(f"Ana is not happy {words}.", ANA)
    await memory.tidy()
    assert len(await memory.contradictions()) == 1
    assert len(await contents(memory)) == 2


async def test_a_repeated_store_stores_once(memory: LongTermMemory) -> None:
    await memory.store("Ana lives in Rome.", ANA)
    first = await memory.store("Ana lives in Oslo.", ANA, request_id="r")
    await memory.store("Ana lives in Bern.", ANA)
    assert await memory.store("Ana lives in Oslo.", ANA, request_id="r") == first
    assert len(await contents(memory)) == 3


async def test_a_judge_is_asked_about_similar_entries(store: LongTermStore) -> None:
    asked: list[str] = []

    async def model(prompt: str) -> str:
        asked.append(prompt)
        return "No." if "no meat" in prompt else "yes"

    async with LongTermMemory(store, judge=model_judge(model)) as memory:
        await memory.store("Ana wants steak for dinner every evening", ANA)
        await memory.store("Ana wants no meat for dinner any evening", ANA)
        await memory.store("The weather is fine", ANA)
        assert [each.reason for each in await memory.contradictions()] == ["a model says so"]
    assert len(asked) == 1, "only near ones are judged"


async def test_a_judge_that_fails_delays_no_store(store: LongTermStore) -> None:
    async def model(prompt: str) -> str:
        raise Unavailable("down")

    async with LongTermMemory(store, judge=model_judge(model)) as memory:
        await memory.store("Ana wants steak for dinner every evening", ANA)
        await memory.store("Ana wants no meat for dinner any evening", ANA)
        assert len(await contents(memory)) == 2


async def test_an_import_is_not_compared(memory: LongTermMemory) -> None:
    await memory.store_batch([NewEntry(f"Ana lives in town {number}.", ANA) for number in range(30)])
    assert await memory.contradictions() == []
