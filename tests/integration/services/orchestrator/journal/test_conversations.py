"""What roles remember of sessions, held for each store: a turn counts with its append, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from archon_services.orchestrator.journal import Append, Conversation, Journal, MemoryJournal, Outcome, Turn
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.journal.session_history import HISTORY_BYTES, HISTORY_TURNS
from tests.integration.services.orchestrator.journal.test_conformance import journal, new, place, step

__all__ = ["journal", "place"]


def turn(version: int, data: bytes = b"", *, role: str = "clerk", session: str = "s", tenant: str = "default") -> Turn:
    return Turn(tenant, session, role, version, data or f"{role} {version}".encode())


def adding(run_id: str, last_seq: int, *turns: Turn, epoch: int = 1, time: float = 100.0) -> Append:
    return replace(step(run_id, last_seq, epoch=epoch, time=time, batch=f"{run_id}:{last_seq}:{epoch}"), turns=turns)


async def test_durability_17_a_turn_is_stored_with_its_append_and_a_conversation_is_its_turns(journal: Journal) -> None:
    assert await journal.conversation("default", "s", "clerk") == Conversation(0, ())
    await journal.create(new("r"), step("r", 0))
    assert await journal.append(adding("r", 1, turn(1), turn(1, role="other"))) is Outcome.DONE
    assert await journal.append(adding("r", 2, turn(2))) is Outcome.DONE
    assert await journal.conversation("default", "s", "clerk") == Conversation(2, (b"clerk 1", b"clerk 2"))
    assert await journal.conversation("default", "s", "other") == Conversation(1, (b"other 1",))
    for stranger in (("else", "s", "clerk"), ("default", "t", "clerk"), ("default", "s", "c")):
        assert (await journal.conversation(*stranger)).version == 0


async def test_durability_17_who_comes_second_stores_nothing_of_the_whole_append(journal: Journal) -> None:
    for run_id in ("a", "b"):
        await journal.create(new(run_id), step(run_id, 0))
    assert await journal.append(adding("a", 1, turn(1))) is Outcome.DONE
    assert await journal.append(adding("b", 1, turn(1, role="other"), turn(1))) is Outcome.CONFLICT
    row = await journal.run("b")
    assert row is not None and row.last_seq == 1
    assert (await journal.conversation("default", "s", "other")).version == 0
    assert await journal.append(adding("b", 1, turn(2))) is Outcome.DONE


async def test_durability_3_the_same_batch_with_a_turn_is_done_again_and_stored_once(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    for _ in range(2):
        assert await journal.append(adding("r", 1, turn(1))) is Outcome.DONE
    assert await journal.conversation("default", "s", "clerk") == Conversation(1, (b"clerk 1",))


async def test_a_turn_of_a_deposed_owner_or_of_a_stale_state_is_not_stored(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    await journal.claim("r", "other")
    assert await journal.append(adding("r", 1, turn(1), epoch=1)) is Outcome.DEPOSED
    assert await journal.append(adding("r", 5, turn(1), epoch=2)) is Outcome.STALE
    assert (await journal.conversation("default", "s", "clerk")).version == 0


async def test_of_many_runs_at_once_in_one_conversation_one_counts_and_runs_without_turns_are_not_hurt(
    journal: Journal,
) -> None:
    names = [f"r{number}" for number in range(30)]
    await asyncio.gather(*(journal.create(new(name), step(name, 0)) for name in names))
    appends = [adding(name, 1, turn(1, name.encode())) if n % 3 else step(name, 1) for n, name in enumerate(names)]
    outcomes = await asyncio.gather(*(journal.append(one) for one in appends))
    told = {append.run_id: outcome for append, outcome in zip(appends, outcomes, strict=True) if append.turns}
    winners = [name.encode() for name, outcome in told.items() if outcome is Outcome.DONE]
    assert len(winners) == 1 and set(told.values()) == {Outcome.DONE, Outcome.CONFLICT}
    assert (await journal.conversation("default", "s", "clerk")).turns == tuple(winners)
    assert all(outcome is Outcome.DONE for n, outcome in enumerate(outcomes) if n % 3 == 0)


async def test_of_a_long_conversation_the_newest_turns_are_told(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    big = bytes(HISTORY_BYTES // 3)
    for number in range(1, 6):
        assert await journal.append(adding("r", number, turn(number, big))) is Outcome.DONE
    told = await journal.conversation("default", "s", "clerk")
    assert (told.version, len(told.turns)) == (5, 3)


async def test_of_many_short_turns_so_many_are_told() -> None:
    journal = MemoryJournal()
    await journal.create(new("r"), step("r", 0))
    for number in range(1, HISTORY_TURNS + 3):
        await journal.append(adding("r", number, turn(number)))
    told = await journal.conversation("default", "s", "clerk")
    assert (told.version, len(told.turns), told.turns[0]) == (HISTORY_TURNS + 2, HISTORY_TURNS, b"clerk 3")


async def test_turns_are_deleted_after_their_time_as_runs_are(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    for number, time in ((1, 10.0), (2, 20.0)):
        await journal.append(adding("r", number, turn(number), time=time))
    await journal.delete(15.0, 100.0, 60.0)
    assert await journal.conversation("default", "s", "clerk") == Conversation(2, (b"clerk 2",))
    await journal.delete(25.0, 100.0, 60.0)
    assert await journal.conversation("default", "s", "clerk") == Conversation(0, ())


@pytest.mark.parametrize("journal", ["sqlite-full", "postgres"], indirect=True)
async def test_text_of_any_kind_names_a_session(journal: Journal) -> None:
    await journal.create(new("r"), step("r", 0))
    odd = turn(1, role="clérk", session="'; DROP TABLE turns; --", tenant="ten\tant")
    assert await journal.append(adding("r", 1, odd)) is Outcome.DONE
    assert (await journal.conversation(odd.tenant, odd.session_id, odd.role)).version == 1


async def test_two_orchestrators_that_store_one_turn_at_once_agree_who_did(postgres_dsn: str) -> None:
    first, second = PostgresJournal(postgres_dsn), PostgresJournal(postgres_dsn)
    await first.open()
    await second.open()
    try:
        for number in range(20):
            a, b = f"a{number}", f"b{number}"
            await first.create(new(a), step(a, 0))
            await second.create(new(b), step(b, 0))
            key = turn(number + 1), turn(number + 1, role="other")
            outcomes = await asyncio.gather(
                first.append(adding(a, 1, *key)), second.append(adding(b, 1, *reversed(key)))
            )
            assert sorted(one.value for one in outcomes) == ["conflict", "done"]
        assert (await first.conversation("default", "s", "clerk")).version == 20
    finally:
        await first.close()
        await second.close()
