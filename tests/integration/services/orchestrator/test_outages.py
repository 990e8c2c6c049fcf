"""Runs survive real processes that die, freeze and come back, within time limits."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from archon.client import answer_text
from archon.errors import ArchonError, RequestIdReused
from archon.memory import MemoryGraphClient
from archon.types import TaskState
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import Mesh, ProcessMesh
from tests.fixtures.waiting import eventually

pytestmark = pytest.mark.liveness

NOTICED_WITHIN = 3.0
WHOLE = "implementer(requirements(), designer(requirements()))"


async def begun(mesh: Mesh, role: str, attempt: int = 1) -> None:
    """Waits until an agent has begun an attempt."""

    async def look() -> bool:
        return (role, attempt) in mesh.executions("begin")

    await eventually(look, 10.0)


async def three(mesh: Mesh) -> asyncio.Event:
    """Starts the three roles. Returns the gate of the designer, which is open."""
    gate = asyncio.Event()
    gate.set()
    await mesh.agent("requirements")
    await mesh.agent("designer", "requirements", gate=gate)
    await mesh.agent("implementer", "requirements", "designer")
    return gate


async def test_the_registration_of_a_killed_agent_expires(own_mesh: Mesh) -> None:
    agent = await own_mesh.agent_process("mortal")
    (instance,) = await own_mesh.directory.list_instances()
    assert instance.address == agent.address
    await agent.kill()
    await own_mesh.seen(agent.address, gone=True, within=6.0)
    assert await own_mesh.directory.list_instances() == []


async def test_a_killed_agents_task_completes_on_another_instance(own_mesh: Mesh) -> None:
    mesh = own_mesh
    first = await mesh.agent_process("solo", delay=30.0)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, "solo")
    await mesh.agent("solo")
    killed = time.monotonic()
    await first.kill()
    await begun(mesh, "solo", attempt=2)
    assert time.monotonic() - killed < NOTICED_WITHIN
    run = await handle.result(timeout=10)
    assert run.state == TaskState.COMPLETED
    assert run.tasks[0].attempt == 2
    assert mesh.executions() == [("solo", 2)]


@pytest.mark.slow
async def test_durability_28_a_frozen_agents_late_result_is_discarded(
    own_mesh: Mesh,
) -> None:
    mesh = own_mesh
    first = await mesh.agent_process("solo", delay=2.0)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, "solo")
    frozen = time.monotonic()
    first.send(signal.SIGSTOP)
    gate = asyncio.Event()
    await mesh.agent("solo", gate=gate)
    await begun(mesh, "solo", attempt=2)
    assert time.monotonic() - frozen < NOTICED_WITHIN + 1.0  # includes the start of the second agent
    first.send(signal.SIGCONT)

    async def late() -> bool:
        return mesh.executions() == [("solo", 1)]

    await eventually(late)
    gate.set()
    events = [event async for event in handle.events()]
    kinds = [event.type for event in events if event.seq]
    assert kinds.count("lost") == 1
    assert kinds.count("result") == 1
    run = await mesh.client.get(handle.run_id)
    assert run.state == TaskState.COMPLETED
    assert run.tasks[0].attempt == 2


async def test_a_run_without_an_instance_waits_until_one_starts(own_mesh: Mesh) -> None:
    mesh = own_mesh
    first = await mesh.agent_process("solo", delay=30.0)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, "solo")
    await first.kill()

    async def waits() -> bool:
        return "an instance of solo" in (await mesh.client.get(handle.run_id)).tasks[0].waiting_for

    await eventually(waits, NOTICED_WITHIN + 0.5)
    await mesh.agent("solo")
    assert (await handle.result(timeout=10)).state == TaskState.COMPLETED


@pytest.mark.search
async def test_durability_20_a_task_is_poisoned_after_three_losses(own_mesh: Mesh) -> None:
    mesh = own_mesh
    handle = None
    for attempt in (1, 2, 3):
        agent = await mesh.agent_process("doomed", delay=30.0)
        handle = handle or await mesh.client.submit("x", roles=["doomed"])
        await begun(mesh, "doomed", attempt)
        await agent.kill()
    assert handle is not None
    run = await handle.result(timeout=10)
    assert run.state == TaskState.FAILED
    assert "3 attempts" in run.proto.failure.message


async def test_durability_21_a_run_survives_the_orchestrators_death(
    own_mesh: Mesh,
) -> None:
    mesh = own_mesh
    gate = await three(mesh)
    gate.clear()
    handle = await mesh.client.submit("x", request_id="q1")
    await begun(mesh, "designer")
    await mesh.orchestrator.kill()
    await mesh.orchestrator.start()
    gate.set()
    run = await handle.result(timeout=15)
    assert answer_text(run) == WHOLE
    assert mesh.executions() == [("requirements", 1), ("designer", 1), ("implementer", 1)], (
        "each task was executed once; the attempt in progress was adopted"
    )
    assert (await mesh.client.submit("x", request_id="q1")).run_id == run.run_id
    with pytest.raises(RequestIdReused):
        await mesh.client.submit("y", request_id="q1")


async def test_durability_19_a_result_during_an_outage_is_parked(
    own_mesh: Mesh,
) -> None:
    mesh = own_mesh
    gate = asyncio.Event()
    await mesh.agent("solo", gate=gate)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, "solo")
    await mesh.orchestrator.kill()
    gate.set()

    async def ended() -> bool:
        return mesh.executions() == [("solo", 1)]

    await eventually(ended, 5.0)
    await mesh.orchestrator.start()
    run = await handle.result(timeout=10)
    assert run.state == TaskState.COMPLETED
    assert run.tasks[0].attempt == 1
    assert mesh.executions() == [("solo", 1)]


@pytest.mark.slow
async def test_a_watch_over_a_restart_gives_every_event_once(own_mesh: Mesh) -> None:
    mesh = own_mesh
    gate = await three(mesh)
    gate.clear()
    handle = await mesh.client.submit("x")
    seqs: list[int] = []

    async def watch() -> None:
        async for event in handle.events():
            if event.seq:
                seqs.append(event.seq)

    watching = asyncio.create_task(watch())
    await begun(mesh, "designer")
    await mesh.orchestrator.kill()
    await mesh.orchestrator.start()
    gate.set()
    async with asyncio.timeout(20):
        await watching
    assert seqs == list(range(1, len(seqs) + 1))
    assert seqs[-1] == (await mesh.client.get(handle.run_id)).last_seq


@pytest.mark.search
async def test_durability_27_runs_continue_without_the_registry(own_mesh: Mesh) -> None:
    mesh = own_mesh
    gate = await three(mesh)
    await mesh.client.submit("warm", wait=10)
    gate.clear()
    handle = await mesh.client.submit("x")
    await mesh.registry.kill()
    gate.set()
    assert answer_text(await handle.result(timeout=10)) == WHOLE
    assert answer_text((await mesh.client.submit("y", wait=10)).run) == WHOLE, "new runs use the last snapshot"
    await mesh.registry.start()
    for address in mesh.addresses:
        await mesh.seen(address, within=15.0)


@pytest.mark.slow
async def test_durability_27_runs_continue_while_etcd_restarts(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        etcd = EtcdProcess()
        stack.push_async_callback(asyncio.to_thread, etcd.close)
        await asyncio.to_thread(etcd.start)
        mesh = Mesh(tmp_path, etcd.address)
        await mesh.start()
        stack.push_async_callback(mesh.stop)
        gate = await three(mesh)
        await mesh.client.submit("warm", wait=10)
        gate.clear()
        handle = await mesh.client.submit("x")
        await asyncio.to_thread(etcd.restart)
        gate.set()
        assert answer_text(await handle.result(timeout=10)) == WHOLE
        await mesh.agent("late")
        assert answer_text((await mesh.client.submit("y", roles=["late"], wait=10)).run) == "late()"
        for address in mesh.addresses:
            await mesh.seen(address)


async def test_durability_15_runs_continue_without_the_memory_service(
    own_mesh: Mesh,
) -> None:
    mesh = own_mesh
    await three(mesh)
    await mesh.client.submit("warm", wait=10)
    await mesh.memory.kill()
    run = (await mesh.client.submit("x", session_id="s", wait=10)).run
    assert answer_text(run) == WHOLE
    await mesh.memory.start()
    async with MemoryGraphClient(mesh.memory.address, "s") as memory:

        async def fed() -> bool:
            try:
                items = await memory.pull_for("implementer")
            except ArchonError:
                return False
            return [item.source_id for item in items] == ["requirements", "designer"]

        await eventually(fed, 15.0)


async def test_sigterm_ends_an_orchestrator_that_has_watchers(process_mesh: ProcessMesh) -> None:
    mesh = process_mesh
    await mesh.agent("solo", gate=asyncio.Event())
    handle = await mesh.client.submit("x", roles=["solo"])
    watching = asyncio.create_task(handle.result())
    await begun(mesh, "solo")
    began = time.monotonic()
    assert await mesh.orchestrator.stop() == 0
    assert time.monotonic() - began < 5.0
    watching.cancel()
