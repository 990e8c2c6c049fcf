"""The agents of a run share storage between processes; without a memory service, no task fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from archon.client import answer_text
from archon.memory import WorkingMemoryClient
from tests.fixtures.mesh import Mesh, ProcessMesh, own_mesh, process_mesh

__all__ = ["own_mesh", "process_mesh"]

SHARING = "tests.integration.services.memory.sharing_agent"


async def start_agents(mesh: Mesh, memory: str, calls: str = "") -> None:
    await mesh.agent_process("first", module=SHARING, ARCHON_MEMORY=memory, CALLS=calls)
    await mesh.agent_process("second", "first", module=SHARING, ARCHON_MEMORY=memory)


async def run_roles(mesh: Mesh, *roles: str, strategy: str = "pipeline") -> tuple[str, dict[str, Any]]:
    """Runs the roles; returns the run id and the decoded answer."""
    handle = await mesh.client.submit("share", roles=roles, strategy=strategy)
    run = await handle.result(timeout=20)
    return handle.run_id, json.loads(answer_text(run))


async def test_next_agent_of_a_run_starts_with_the_stored_values(own_mesh: Mesh) -> None:
    await start_agents(own_mesh, own_mesh.memory.address)
    for _ in range(2):  # each run has its own values
        run_id, seen = await run_roles(own_mesh, "first", "second")
        assert seen == {"seen": ["first", "second"], "mine": "second"}
        async with WorkingMemoryClient(own_mesh.memory.address, run_id) as working:
            assert await working.to_dict() == {"seen": ["first", "second"]}
            assert await working.version("seen") == 2


async def test_delegating_and_delegated_agents_share_values(own_mesh: Mesh) -> None:
    await start_agents(own_mesh, own_mesh.memory.address, calls="second")
    _, seen = await run_roles(own_mesh, "first", strategy="agent")
    assert seen == {"seen": ["first", "second"], "mine": "first"}


async def test_without_a_memory_service_values_stay_in_the_process(own_mesh: Mesh) -> None:
    await start_agents(own_mesh, "")
    _, seen = await run_roles(own_mesh, "first", "second")
    assert seen == {"seen": ["second"], "mine": "second"}


@pytest.mark.search
async def test_unavailable_memory_fails_no_task_and_is_logged_once(process_mesh: ProcessMesh) -> None:
    await start_agents(process_mesh, process_mesh.memory.address)
    log = process_mesh.processes[0].log  # of both agents, which are one module
    for number, stop in enumerate((process_mesh.memory.freeze, process_mesh.memory.kill), 1):
        if (stopping := stop()) is not None:
            await stopping
        async with asyncio.timeout(60):
            _, seen = await run_roles(process_mesh, "first", "second")
        assert seen == {"seen": ["second"], "mine": "second"}
        assert log.read_text().count("they stay in this process") == 2 * number
        process_mesh.memory.thaw()
    await process_mesh.memory.start()

    async with WorkingMemoryClient(process_mesh.memory.address, "any") as working:
        await working.set("k", 1)
    async with asyncio.timeout(60):
        while (await run_roles(process_mesh, "first", "second"))[1]["seen"] != ["first", "second"]:
            pass
