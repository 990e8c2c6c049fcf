"""Memory across processes: scripts with a file, and served roles with the memory service, also while it is down."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from archon.client import answer_text
from archon.memory import LongTermMemoryClient
from archon_mesh.memory.automatic import USER_KEY
from tests.fixtures.fork_server import fork_server
from tests.fixtures.mesh import ProcessMesh, process_mesh

__all__ = ["process_mesh"]

AGENT = "tests.integration.mesh.memory.automatic.remembering_agent"
UNKNOWN = "I do not know whose population you mean."


async def ask(query: str, home: Path, **environment: str) -> str:
    """Returns the answer of an agent in a process of its own."""
    variables = {**os.environ, "ARCHON_HOME": str(home), "ARCHON_MEMORY": "", **environment}
    process = await asyncio.to_thread(fork_server.run, AGENT, [query], variables, "", 120)
    assert process.returncode == 0
    return process.stdout.strip()


async def test_a_follow_up_is_answered_in_a_new_process(tmp_path: Path) -> None:
    assert "13,960,000" in await ask("Tell me about Tokyo.", tmp_path)
    assert await ask("Its population?", tmp_path) == "13,960,000"
    assert await ask("Its population?", tmp_path, NO_MEMORY="yes") == UNKNOWN
    assert await ask("Its population?", tmp_path, AGENT_USER="ben") == UNKNOWN


async def run_role(mesh: ProcessMesh, query: str, user: str = "", session: str = "") -> str:
    handle = await mesh.client.submit(
        query, roles=["clerk"], session_id=session, metadata={USER_KEY: user} if user else None
    )
    return answer_text(await handle.result(timeout=60))


async def test_a_preference_of_one_session_filters_another(process_mesh: ProcessMesh) -> None:
    for _ in range(2):  # two instances of the role: it does not matter which has heard it
        await process_mesh.agent_process("clerk", module=AGENT, ARCHON_MEMORY=process_mesh.memory.address)
    await run_role(process_mesh, "Good morning.\nI only fly with window seats.", "ana", "first")
    assert (
        await run_role(process_mesh, "Which plane to Oslo?", "ana", "second") == "I take flight B with a window seat."
    )
    assert await run_role(process_mesh, "Which plane to Oslo?", "ben", "third") == "I take flight A with an aisle seat."
    async with LongTermMemoryClient(process_mesh.memory.address) as memory:
        (stored,) = await memory.recent(10, {"type": "preference"})
        assert stored.metadata.items() >= {"user": "ana", "session": "first", "role": "user"}.items()
        assert await memory.forget(user="ana") >= 3
    assert (
        await run_role(process_mesh, "Which plane to Oslo?", "ana", "fourth") == "I take flight A with an aisle seat."
    )


async def test_without_a_user_the_session_has_the_memory(process_mesh: ProcessMesh) -> None:
    await process_mesh.agent_process("clerk", module=AGENT, ARCHON_MEMORY=process_mesh.memory.address)
    await run_role(process_mesh, "I only fly with window seats.", session="first")
    assert (
        await run_role(process_mesh, "Which plane to Oslo?", session="first") == "I take flight B with a window seat."
    )
    assert (
        await run_role(process_mesh, "Which plane to Oslo?", session="second") == "I take flight A with an aisle seat."
    )
    assert await run_role(process_mesh, "Which plane to Oslo?") == "I take flight A with an aisle seat."
    async with LongTermMemoryClient(process_mesh.memory.address) as memory:
        users = {entry.metadata["user"] for entry in await memory.recent(20)}
        assert users == {"session/first", "session/second"}, "a run without user and session leaves nothing"


@pytest.mark.search
@pytest.mark.liveness
async def test_a_frozen_service_costs_a_run_little_and_loses_nothing(process_mesh: ProcessMesh) -> None:
    await process_mesh.agent_process("clerk", module=AGENT, ARCHON_MEMORY=process_mesh.memory.address)
    await run_role(process_mesh, "Good morning.", "ana")
    process_mesh.memory.freeze()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(3):
        assert await run_role(process_mesh, "I only fly with window seats.", "ana") == "Noted."
    assert loop.time() - began < 20.0, "one of the runs waits for two seconds"
    process_mesh.memory.thaw()
    async with asyncio.timeout(90):
        while await run_role(process_mesh, "Which plane to Oslo?", "ana") != "I take flight B with a window seat.":
            pass
