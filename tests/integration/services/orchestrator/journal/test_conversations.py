"""Conversations of stateful roles, tested on each store: a turn is stored with its step or not at all."""

from __future__ import annotations

import asyncio

import pytest

from archon_services.orchestrator.journal import Conversation, Journal, MemoryJournal, Outcome, Step, Turn
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.journal.session_history import HISTORY_BYTES, HISTORY_TURNS
from tests.fixtures.journal import commit_group, create, step, store, stored_events


def turn(version: int, data: bytes = b"", *, role: str = "clerk", session: str = "s", tenant: str = "default") -> Turn:
    return Turn(tenant, session, role, version, data or f"{role} {version}".encode())


def adding(run_id: str, base: int, *turns: Turn, epoch: int = 1, time: float = 100.0, changed: bool = False) -> Step:
    batch = f"{run_id}:{base}:{epoch}"
    return step(run_id, base, epoch=epoch, time=time, batch=batch, turns=turns, changed=changed)


async def test_durability_17_a_conversation_is_the_turns_of_its_steps(journal: Journal) -> None:
    assert await journal.conversation("default", "s", "clerk") == Conversation(0, ())
    await create(journal, "r")
    assert await store(journal, adding("r", 1, turn(1), turn(1, role="other"))) is Outcome.DONE
    assert await store(journal, adding("r", 2, turn(2), changed=True)) is Outcome.DONE
    assert await journal.conversation("default", "s", "clerk") == Conversation(2, (b"clerk 1", b"clerk 2"))
    assert await journal.conversation("default", "s", "other") == Conversation(1, (b"other 1",))
    for stranger in (("else", "s", "clerk"), ("default", "t", "clerk"), ("default", "s", "c")):
        assert (await journal.conversation(*stranger)).version == 0


async def test_durability_17_a_step_with_a_stale_turn_stores_nothing(journal: Journal) -> None:
    for run_id in ("a", "b"):
        await create(journal, run_id)
    assert await store(journal, adding("a", 1, turn(1))) is Outcome.DONE
    for changed in (False, True):
        stale = adding("b", 1, turn(1, role="other"), turn(1), changed=changed)
        assert await store(journal, stale) is Outcome.CONFLICT
        row = await journal.run("b")
        assert row is not None and row.last_seq == 1
        assert len(await stored_events(journal, "b")) == 1
        assert (await journal.conversation("default", "s", "other")).version == 0
    assert await store(journal, adding("b", 1, turn(2))) is Outcome.DONE


async def test_durability_3_the_same_step_with_a_turn_is_stored_once(journal: Journal) -> None:
    await create(journal, "r")
    for _ in range(2):
        assert await store(journal, adding("r", 1, turn(1))) is Outcome.DONE
    assert await journal.conversation("default", "s", "clerk") == Conversation(1, (b"clerk 1",))


async def test_a_turn_of_a_deposed_or_stale_step_is_not_stored(journal: Journal) -> None:
    await create(journal, "r")
    await journal.claim("r", "other")
    assert await store(journal, adding("r", 1, turn(1), epoch=1)) is Outcome.DEPOSED
    assert await store(journal, adding("r", 5, turn(1), epoch=2)) is Outcome.STALE
    assert (await journal.conversation("default", "s", "clerk")).version == 0


async def test_of_many_runs_in_one_conversation_one_stores_its_turn(journal: Journal) -> None:
    names = [f"r{number}" for number in range(30)]
    await asyncio.gather(*(create(journal, name) for name in names))
    steps = [adding(name, 1, turn(1, name.encode())) if n % 3 else step(name, 1) for n, name in enumerate(names)]
    outcomes = await asyncio.gather(*(store(journal, each) for each in steps))
    competing = {each.run_id: outcome for each, outcome in zip(steps, outcomes, strict=True) if each.turns}
    winners = [name.encode() for name, outcome in competing.items() if outcome is Outcome.DONE]
    assert len(winners) == 1 and set(competing.values()) == {Outcome.DONE, Outcome.CONFLICT}
    assert (await journal.conversation("default", "s", "clerk")).turns == tuple(winners)
    assert all(outcome is Outcome.DONE for n, outcome in enumerate(outcomes) if n % 3 == 0)


async def test_of_a_group_with_one_conversation_one_stores_its_turn(journal: Journal) -> None:
    names = [f"r{number}" for number in range(6)]
    await asyncio.gather(*(create(journal, name) for name in names))
    steps = [adding(name, 1, turn(1, name.encode())) if n % 3 else step(name, 1) for n, name in enumerate(names)]
    outcomes = await commit_group(journal, *steps)
    done, conflict = Outcome.DONE, Outcome.CONFLICT
    assert list(outcomes) == [done, done, conflict, done, conflict, conflict]
    assert (await journal.conversation("default", "s", "clerk")).turns == (b"r1",)


async def test_of_a_long_conversation_the_newest_turns_are_read(journal: Journal) -> None:
    await create(journal, "r")
    big = bytes(HISTORY_BYTES // 3)
    for number in range(1, 6):
        assert await store(journal, adding("r", number, turn(number, big))) is Outcome.DONE
    conversation = await journal.conversation("default", "s", "clerk")
    assert (conversation.version, len(conversation.turns)) == (5, 3)


async def test_of_many_short_turns_only_so_many_are_read() -> None:
    journal = MemoryJournal()
    await create(journal, "r")
    for number in range(1, HISTORY_TURNS + 3):
        await store(journal, adding("r", number, turn(number)))
    conversation = await journal.conversation("default", "s", "clerk")
    assert (conversation.version, len(conversation.turns)) == (HISTORY_TURNS + 2, HISTORY_TURNS)
    assert conversation.turns[0] == b"clerk 3"


async def test_turns_are_deleted_after_their_time_as_runs_are(journal: Journal) -> None:
    await create(journal, "r")
    for number, time in ((1, 10.0), (2, 20.0)):
        await store(journal, adding("r", number, turn(number), time=time))
    await journal.delete(15.0, 100.0, 60.0)
    assert await journal.conversation("default", "s", "clerk") == Conversation(2, (b"clerk 2",))
    await journal.delete(25.0, 100.0, 60.0)
    assert await journal.conversation("default", "s", "clerk") == Conversation(0, ())


@pytest.mark.parametrize("journal", ["sqlite-full", "postgres"], indirect=True)
async def test_text_of_any_kind_names_a_session(journal: Journal) -> None:
    await create(journal, "r")
    odd = turn(1, role="clérk", session="'; DROP TABLE turns; --", tenant="ten\tant")
    assert await store(journal, adding("r", 1, odd)) is Outcome.DONE
    assert (await journal.conversation(odd.tenant, odd.session_id, odd.role)).version == 1


async def test_of_two_orchestrators_one_stores_a_turn(postgres_dsn: str) -> None:
    first, second = PostgresJournal(postgres_dsn), PostgresJournal(postgres_dsn)
    await first.open()
    await second.open()
    try:
        for number in range(20):
            a, b = f"a{number}", f"b{number}"
            await create(first, a)
            await create(second, b)
            key = turn(number + 1), turn(number + 1, role="other")
            outcomes = await asyncio.gather(
                store(first, adding(a, 1, *key)), store(second, adding(b, 1, *reversed(key)))
            )
            assert {outcomes[0], outcomes[1]} == {Outcome.CONFLICT, Outcome.DONE}
        assert (await first.conversation("default", "s", "clerk")).version == 20
    finally:
        await first.close()
        await second.close()
