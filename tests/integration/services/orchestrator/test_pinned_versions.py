"""A run with pinned versions stays with the versions that its roles had as it was submitted."""

from __future__ import annotations

import asyncio
from typing import Any

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.client import answer_text
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


async def join(
    mesh: Mesh, role: str, version: str, *, gate: asyncio.Event | None = None, after: str = ""
) -> AgentServer:
    """Starts an agent of a version, which replies it."""

    async def reply(task: TaskContext) -> str:
        if gate is not None:
            await gate.wait()
        return f"{role} {version}"

    settings = AgentSettings(registry=mesh.registry.address)
    return await mesh.join(
        AgentServer(role, handler=reply, version=version, depends_on=[after] if after else [], settings=settings)
    )


async def waits_for(mesh: Mesh, run_id: str, text: str) -> None:
    """Returns when a task of the run waits for this."""

    async def waits() -> bool:
        tasks: list[Any] = list((await mesh.client.get(run_id)).proto.tasks)
        return any(text in task.waiting_for for task in tasks)

    await eventually(waits)


async def test_a_pinned_run_stays_with_its_versions_after_a_takeover(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    await join(own_mesh, "first", "1.0", gate=gate)
    await join(own_mesh, "last", "1.9", after="first")
    await join(own_mesh, "last", "1.10", after="first")
    runs = [await own_mesh.client.submit("x", roles=["first", "last"], pin_versions=True) for _ in range(4)]
    await join(own_mesh, "last", "2.0", after="first")
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()
    gate.set()
    assert [answer_text(await run.result(30)) for run in runs] == ["last 1.10"] * 4
    later = await own_mesh.client.submit("x", roles=["first", "last"], pin_versions=True)
    assert answer_text(await later.result(30)) == "last 2.0"


async def test_a_pinned_version_is_the_newest_that_versions_admits(own_mesh: Mesh) -> None:
    for version in ("1.0", "1.5", "2.0"):
        await join(own_mesh, "alone", version)
    pinned = await own_mesh.client.submit("x", roles=["alone"], versions={"alone": "1.*"}, pin_versions=True, wait=10)
    assert answer_text(pinned.run) == "alone 1.5"


async def test_a_pinned_task_waits_for_its_version_up_to_the_timeout(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    await join(own_mesh, "first", "1.0", gate=gate)
    old = await join(own_mesh, "last", "1.0", after="first")
    runs = [
        await own_mesh.client.submit("x", roles=["first", "last"], pin_versions=True, timeout=timeout)
        for timeout in (60.0, 600.0)
    ]
    await join(own_mesh, "last", "2.0", after="first")
    await old.stop(0.0)
    gate.set()
    for run in runs:
        await waits_for(own_mesh, run.run_id, "an instance of last 1.0 with room (none is registered)")
    await own_mesh.advance(61.0)
    ended = await runs[0].result(30)
    assert ended.state is TaskState.FAILED
    assert ended.failure is not None and ended.failure.reason == "RUN_TIMEOUT"
    await join(own_mesh, "last", "1.0", after="first")
    assert answer_text(await runs[1].result(30)) == "last 1.0"
