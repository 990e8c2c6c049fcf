"""A memory that is down, frozen, damaged or without its embedder costs a run little, and never fails it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw
import pytest

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon.memory import LongTermMemoryClient
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.memory.automatic import MemoryMiddleware, open_memory
from archon_mesh.memory.automatic.entries import TURN
from archon_mesh.memory.long_term import LongTermMemory, OfflineEmbedder, Outbox, SqliteLongTermStore, upkeep
from archon_mesh.memory.long_term.port import Vector
from tests.fixtures.waiting import Eventually

WINDOW_SEATS = "I only fly with window seats."


def clerk(middleware: MemoryMiddleware, model: ScriptedModel | None = None) -> Agent:
    return Agent("clerk", model=model or ScriptedModel(lambda request: "Noted."), user_id="ana").use(middleware)


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"ARCHON_HOME": str(home), **more}


@pytest.mark.liveness
async def test_what_a_locked_file_cannot_take_arrives_later(
    memory: LongTermMemory, tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "INTERVAL", 0.2)
    agent = clerk(MemoryMiddleware(memory))
    await agent.run_async("Good morning.")
    lock = apsw.Connection(str(tmp_path / "long_term.db"))
    lock.execute("BEGIN IMMEDIATE")
    began = asyncio.get_running_loop().time()
    assert await agent.run_async(f"{WINDOW_SEATS} Which trip do you suggest?") == "Noted."
    assert asyncio.get_running_loop().time() - began < 8.0, "one entry waits for 1.5 s, the others do not"
    lock.execute("ROLLBACK")
    lock.close()

    async def stored() -> bool:
        try:
            return len(await memory.recent(50, {"type": TURN})) == 2
        except Unavailable:
            return False

    await eventually(stored, within=60)


@pytest.mark.liveness
async def test_a_frozen_memory_costs_all_runs_one_wait(memory: LongTermMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    for method in ("recent", "nearest", "with_words", "insert"):
        monkeypatch.setattr(memory._store, method, never)
    agent = clerk(MemoryMiddleware(memory))
    began = asyncio.get_running_loop().time()
    for _ in range(10):
        assert await agent.run_async("Which seat?") == "Noted."
    assert asyncio.get_running_loop().time() - began < 8.0, "one wait of at most two seconds to read, one to store"


class BrokenEmbedder(OfflineEmbedder):
    """An embedder that is down."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        raise Unavailable("no embeddings")


async def test_without_embeddings_memories_are_found_by_words(tmp_path: Path) -> None:
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "db"), BrokenEmbedder()) as memory:
        await clerk(MemoryMiddleware(memory)).run_async("The code of locker 17 is 8841")
        for number in range(20):
            await memory.store(f"Something else, number {number}", {"user": "ana", "type": "turn"})
        model = ScriptedModel(["8841"])
        await clerk(MemoryMiddleware(memory), model).run_async("What is the code of locker 17?")
        assert any("8841" in message.content for message in model.requests[0].messages)


async def test_a_service_that_is_not_there_fails_no_run(tmp_path: Path) -> None:
    middleware = MemoryMiddleware(partial(open_memory, environment(tmp_path, ARCHON_MEMORY="127.0.0.1:9")))
    agent = clerk(middleware)
    for number in range(3):
        assert await agent.run_async(f"Question {number}") == "Noted."
    assert middleware.waiting == 3
    await agent.close()
    assert middleware.waiting == 3


async def test_a_damaged_file_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "agent_memory.db").write_bytes(b"this is no database at all, however long it may be" * 100)
    agent = clerk(MemoryMiddleware(partial(open_memory, environment(tmp_path))))
    assert await agent.run_async("Question") == "Noted."
    await agent.close()


async def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apsw", None)
    agent = clerk(MemoryMiddleware(partial(open_memory, environment(tmp_path))))
    with pytest.raises(FailedPrecondition, match=r"archon-mesh\[long-term\]"):
        await agent.run_async("Question")
    await agent.close()


async def test_an_unknown_embedder_is_refused(tmp_path: Path) -> None:
    agent = clerk(MemoryMiddleware(partial(open_memory, environment(tmp_path, ARCHON_EMBEDDER="magic"))))
    with pytest.raises(InvalidArgument, match="magic"):
        await agent.run_async("Question")


async def test_an_agent_with_its_own_loops_opens_and_closes_its_memory(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "Done.")
    agent = clerk(MemoryMiddleware(partial(open_memory, environment(tmp_path))), model)
    for query in (WINDOW_SEATS, "Good morning.", "Book it"):
        assert await asyncio.to_thread(agent.run, query) == "Done."  # each run has an event loop of its own
        agent.history.clear()
        model.requests[:-1] = []
    assert any(WINDOW_SEATS in message.content for message in model.requests[0].messages)


async def test_the_memory_is_a_file_or_the_service(tmp_path: Path) -> None:
    assert isinstance(open_memory(environment(tmp_path, ARCHON_MEMORY="127.0.0.1:9")), LongTermMemoryClient)
    local = open_memory(environment(tmp_path), half_life=5.0)
    assert isinstance(local, LongTermMemory)
    assert isinstance(local._outbox, Outbox)
