"""The agents of a run share storage between processes; without a memory service, no task fails."""

from __future__ import annotations

import json
import time
from typing import Any

from archon.client import answer_text
from archon.memory import WorkingMemoryClient
from tests.fixtures.mesh import ProcessMesh, process_mesh

__all__ = ["process_mesh"]

SHARING = "tests.integration.services.memory.sharing_agent"


async def start_agents(mesh: ProcessMesh, memory: str, calls: str = "") -> None:
    await mesh.agent_process("first", module=SHARING, ARCHON_MEMORY=memory, CALLS=calls)
    await mesh.agent_process("second", "first", module=SHARING, ARCHON_MEMORY=memory)


async def run_roles(mesh: ProcessMesh, *roles: str, strategy: str = "pipeline") -> tuple[str, dict[str, Any]]:
    """Runs the roles; returns the run id and the decoded answer."""
    handle = await mesh.client.submit("share", roles=roles, strategy=strategy)
    run = await handle.result(timeout=20)
    return handle.run_id, json.loads(answer_text(run))


async def test_next_agent_of_a_run_starts_with_the_stored_values(process_mesh: ProcessMesh) -> None:
    await start_agents(process_mesh, process_mesh.memory.address)
    for _ in range(2):  # each run has its own values
        run_id, seen = await run_roles(process_mesh, "first", "second")
        assert seen == {"seen": ["first", "second"], "mine": "second"}
        async with WorkingMemoryClient(process_mesh.memory.address, run_id) as working:
            assert await working.to_dict() == {"seen": ["first", "second"]}
            assert await working.version("seen") == 2


async def test_delegating_and_delegated_agents_share_values(process_mesh: ProcessMesh) -> None:
    await start_agents(process_mesh, process_mesh.memory.address, calls="second")
    _, seen = await run_roles(process_mesh, "first", strategy="agent")
    assert seen == {"seen": ["first", "second"], "mine": "first"}


async def test_without_a_memory_service_values_stay_in_the_process(process_mesh: ProcessMesh) -> None:
    await start_agents(process_mesh, "")
    _, seen = await run_roles(process_mesh, "first", "second")
    assert seen == {"seen": ["second"], "mine": "second"}


async def test_unavailable_memory_fails_no_task_and_is_logged_once(process_mesh: ProcessMesh) -> None:
    await start_agents(process_mesh, process_mesh.memory.address)
    log = process_mesh.processes[0].log  # of both agents, which are one module
    for number, stop in enumerate((process_mesh.memory.freeze, process_mesh.memory.kill), 1):
        if (stopping := stop()) is not None:
            await stopping
        began = time.monotonic()
        _, seen = await run_roles(process_mesh, "first", "second")
        assert time.monotonic() - began < 10.0
        assert seen == {"seen": ["second"], "mine": "second"}
        assert log.read_text().count("they stay in this process") == 2 * number
        process_mesh.memory.thaw()
    await process_mesh.memory.start()

    async with WorkingMemoryClient(process_mesh.memory.address, "any") as working:
        await working.set("k", 1)
    deadline = time.monotonic() + 10
    while (await run_roles(process_mesh, "first", "second"))[1]["seen"] != ["first", "second"]:
        assert time.monotonic() < deadline
