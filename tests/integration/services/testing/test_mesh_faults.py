"""The faults of a mesh by name: what a test sees of each, and that the mesh works when it is healed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.client import answer_text
from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon.memory import MemoryGraphClient
from archon.types import TaskState
from archon_mesh.testing import FakeAgent, Fault, InProcessMesh, VirtualTime
from archon_services.testing import mesh_faults
from tests.fixtures.waiting import eventually, run_ready_tasks
from tests.integration.services.orchestrator.troupe import durable, of

TTL = 2.0
"""Seconds of the lease of an agent."""


class Worker:
    """The handler of an agent, which waits for a gate with the goal `wait`."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.tasks: list[TaskContext] = []

    async def __call__(self, task: TaskContext) -> str:
        self.tasks.append(task)
        self.begun.set()
        if task.text == "wait":
            await self.gate.wait()
        return f"attempt {task.attempt}"


@asynccontextmanager
async def mesh_of(home: Path, worker: Worker, **settings: Any) -> AsyncIterator[tuple[InProcessMesh, AgentServer]]:
    """Opens a mesh with links and one agent of the role w. Real time counts as well as the time that a test moves: the
    agent is lost after a silence that no test has by accident."""
    async with InProcessMesh(home, links=True, **{"silence_limit": 30.0, **settings}) as mesh:
        agent = AgentServer("w", handler=worker, settings=mesh.agent_settings(ttl=TTL))
        await agent.start()
        try:
            yield mesh, agent
        finally:
            worker.gate.set()
            await agent.stop(0.0)


async def run(mesh: InProcessMesh) -> str:
    handle = await mesh.client.submit("go", roles=["w"])
    return answer_text(await mesh.advance_until(handle.result()))


async def listed(mesh: InProcessMesh, count: int) -> None:
    """Moves the clock on until so many instances are registered."""

    async def are_listed() -> bool:
        return len(await mesh.directory.list_instances()) == count

    await mesh.advance_until(eventually(are_listed, within=60, every=0.1))


async def test_orchestrator_killed(tmp_path: Path) -> None:
    worker = Worker()
    async with mesh_of(tmp_path, worker) as (mesh, _):
        handle = await mesh.client.submit("wait", roles=["w"])
        await worker.begun.wait()
        async with mesh.fault(Fault.ORCHESTRATOR_KILLED):
            assert not mesh.orchestrator.running
            with pytest.raises(Unavailable):
                await mesh.client.get(handle.run_id)
        worker.gate.set()
        assert answer_text(await handle.result(timeout=10)) == "attempt 1"


async def test_orchestrator_unreachable(tmp_path: Path) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        handle = await mesh.client.submit("go", roles=["w"], wait=10)
        async with mesh.fault(Fault.ORCHESTRATOR_UNREACHABLE):
            asked = asyncio.create_task(mesh.client.get(handle.run_id))
            await mesh.advance(1)
            assert not asked.done()
        assert (await asked).state is TaskState.COMPLETED


async def test_answer_lost(tmp_path: Path) -> None:
    worker = Worker()
    async with mesh_of(tmp_path, worker) as (mesh, _):
        await run(mesh)
        async with mesh.fault(Fault.ANSWER_LOST):
            assert mesh.links is not None
            handle = await mesh.client.submit("once", roles=["w"])
            assert mesh.links.orchestrator.lost, "the connection has broken"
        assert answer_text(await handle.result(timeout=10)) == "attempt 1"
        assert [task.text for task in worker.tasks] == ["go", "once"]
        assert len(await mesh.client.list_runs()) == 2


@pytest.mark.parametrize("fault", [Fault.REGISTRY_KILLED, Fault.REGISTRY_UNREACHABLE])
async def test_registry_killed_or_unreachable(tmp_path: Path, fault: Fault) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        await run(mesh)
        async with mesh.fault(fault):
            assert await run(mesh) == "attempt 1", "the agent is known"
            if fault is Fault.REGISTRY_UNREACHABLE:
                await listed(mesh, 0)
        await listed(mesh, 1)
        assert await run(mesh) == "attempt 1"


@pytest.mark.parametrize("fault", [Fault.MEMORY_KILLED, Fault.MEMORY_UNREACHABLE])
async def test_memory_killed_or_unreachable(tmp_path: Path, fault: Fault) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        async with mesh.fault(fault):
            handle = await mesh.client.submit("go", roles=["w"], session_id="s")
            assert answer_text(await mesh.advance_until(handle.result())) == "attempt 1"
        memory = MemoryGraphClient(mesh.memory.address, "s")

        async def published() -> bool:
            await mesh.advance(0.5)
            return "attempt 1" in str(await memory.to_dict())

        await eventually(published)
        await memory.close()


async def test_agent_lost(tmp_path: Path) -> None:
    worker, other = Worker(), Worker()
    async with mesh_of(tmp_path, worker) as (mesh, agent):
        handle = await mesh.client.submit("wait", roles=["w"])
        await worker.begun.wait()
        other.gate.set()
        async with AgentServer("w", handler=other, settings=mesh.agent_settings(ttl=TTL)):
            async with mesh.fault(Fault.AGENT_LOST, agent):
                assert answer_text(await mesh.advance_until(handle.result())) == "attempt 2"
                await listed(mesh, 1)
            assert len(of(await durable(handle), "lost")) == 1
            await listed(mesh, 2)


@pytest.mark.parametrize("fault", [Fault.AGENT_SILENT, Fault.PARTITION])
async def test_agent_silent_or_behind_a_partition(tmp_path: Path, fault: Fault) -> None:
    worker = Worker()
    async with mesh_of(tmp_path, worker) as (mesh, _):
        handle = await mesh.client.submit("wait", roles=["w"])
        await worker.begun.wait()
        async with mesh.fault(fault, "w"):
            worker.gate.set()
            await mesh.advance(3)
            assert (await mesh.client.get(handle.run_id)).state is TaskState.WORKING
            await listed(mesh, 1)
        assert answer_text(await mesh.advance_until(handle.result())) == "attempt 1"
        assert await run(mesh) == "attempt 1"


async def test_agent_silent_for_long_loses_its_task(tmp_path: Path) -> None:
    worker, other = Worker(), Worker()
    async with mesh_of(tmp_path, worker, silence_limit=2.0) as (mesh, agent):
        handle = await mesh.client.submit("wait", roles=["w"])
        await worker.begun.wait()
        other.gate.set()
        async with (
            AgentServer("w", handler=other, settings=mesh.agent_settings(ttl=TTL)),
            mesh.fault(Fault.AGENT_SILENT, agent),
        ):
            assert answer_text(await mesh.advance_until(handle.result())) == "attempt 2"


async def test_slow_link(tmp_path: Path) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        await run(mesh)
        async with mesh.fault(Fault.SLOW_LINK, "w", seconds=0.4):
            began = time.monotonic()
            assert await run(mesh) == "attempt 1"
            assert time.monotonic() - began >= 0.8, "the task and its result are late"
        assert await run(mesh) == "attempt 1"


async def test_session_cut(tmp_path: Path) -> None:
    worker = Worker()
    async with mesh_of(tmp_path, worker) as (mesh, _):
        handle = await mesh.client.submit("wait", roles=["w"])
        await worker.begun.wait()
        async with mesh.fault(Fault.SESSION_CUT, "w"):
            worker.gate.set()
            assert answer_text(await mesh.advance_until(handle.result())) == "attempt 1"
        assert of(await durable(handle), "lost") == []


async def test_lease_expired(tmp_path: Path) -> None:
    worker = Worker()
    async with mesh_of(tmp_path, worker) as (mesh, _):
        handle = await mesh.client.submit("wait", roles=["w"])
        await worker.begun.wait()
        async with mesh.fault(Fault.LEASE_EXPIRED, "w"):
            assert await mesh.directory.list_instances() == []
            worker.gate.set()
            assert answer_text(await mesh.advance_until(handle.result())) == "attempt 1"
        await listed(mesh, 1)
        assert await run(mesh) == "attempt 1"


def test_each_fault_of_a_mesh_is_tested() -> None:
    source = Path(__file__).read_text()
    assert [fault.name for fault in Fault if f"Fault.{fault.name}" not in source] == []


# Several faults, and how they end


async def test_faults_of_one_agent_add_up(tmp_path: Path) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        partition, silent = mesh.fault("partition", "w"), mesh.fault("agent_silent", "w")
        handle = None
        await partition.start()
        await silent.start()
        with pytest.raises(FailedPrecondition, match="the fault partition has begun already for w"):
            await mesh.fault("PARTITION", "w").start()
        await partition.heal()
        handle = await mesh.client.submit("go", roles=["w"])
        await mesh.advance(0.5)
        assert (await mesh.client.get(handle.run_id)).state is not TaskState.COMPLETED, "the agent is still silent"
        await silent.heal()
        assert answer_text(await mesh.advance_until(handle.result())) == "attempt 1"


async def test_a_fault_of_one_mesh_does_not_hit_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with mesh_of(tmp_path / "a", Worker()) as (mesh, _), mesh_of(tmp_path / "b", Worker()) as (other, _):
        async with mesh.fault("partition", "w"), mesh.fault("memory_killed"):
            assert await run(other) == "attempt 1"
            assert mesh.links is not None
            assert other.links is not None
            assert not mesh.links.agents[0].sessions.is_open
            assert other.links.agents[0].sessions.is_open
        assert await run(mesh) == "attempt 1"


async def test_a_fault_is_healed_if_its_block_raises(tmp_path: Path) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        with pytest.raises(ZeroDivisionError):
            async with mesh.fault("orchestrator_killed"), mesh.fault("partition", "w"):
                raise ZeroDivisionError
        assert await run(mesh) == "attempt 1"


async def test_a_cancelled_block_is_healed(tmp_path: Path) -> None:
    async with mesh_of(tmp_path, Worker()) as (mesh, _):
        begun = asyncio.Event()

        async def strike() -> None:
            async with mesh.fault("memory_killed"), mesh.fault("partition", "w"):
                begun.set()
                await asyncio.Event().wait()

        striking = asyncio.create_task(strike())
        await begun.wait()
        striking.cancel()
        await asyncio.wait([striking])
        assert mesh.memory.running
        assert await run(mesh) == "attempt 1"


async def test_a_mesh_ends_with_faults_that_were_never_healed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "archon_services.testing.in_process"):
        async with mesh_of(tmp_path, Worker()) as (mesh, _):
            faults = [mesh.fault("orchestrator_killed"), mesh.fault("partition", "w"), mesh.fault("memory_unreachable")]
            for fault in faults:
                await fault.start()
    assert "faults that were never healed: orchestrator_killed, partition, memory_unreachable" in caplog.text
    assert not any(fault.active for fault in faults)
    await faults[0].heal()
    assert not mesh.orchestrator.running, "nothing is started by a fault that is healed later"


async def test_a_scripted_agent_is_hit_by_its_role_or_itself(tmp_path: Path) -> None:
    async with (
        InProcessMesh(tmp_path, links=True) as mesh,
        FakeAgent("f", ["soup"], settings=mesh.agent_settings()) as agent,
        mesh.fault("session_cut", agent),
        mesh.fault("slow_link", "f", seconds=0.01),
    ):
        handle = await mesh.client.submit("lunch", roles=["f"])
        assert answer_text(await mesh.advance_until(handle.result())) == "soup"


# Bad inputs


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("split brain", {}, "unknown fault 'split brain'; there are orchestrator_killed, "),
        ("partition", {}, "the fault partition hits an agent: name its role"),
        ("partition", {"agent": ""}, "the fault partition hits an agent: name its role"),
        ("memory_killed", {"agent": "w"}, "the fault memory_killed hits no agent"),
        ("slow_link", {"agent": "w", "seconds": 0}, "seconds must be above 0, not 0"),
        ("slow_link", {"agent": "w", "seconds": float("nan")}, "seconds must be above 0, not nan"),
    ],
)
def test_bad_inputs_of_faults(tmp_path: Path, name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        InProcessMesh(tmp_path, links=True).fault(name, **arguments)


async def refused(action: Callable[[], Awaitable[object]], message: str) -> None:
    with pytest.raises(FailedPrecondition, match=message):
        await action()


async def test_a_fault_that_cannot_be_injected_says_why(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match=r"needs a mesh with links: InProcessMesh\(home, links=True\)"):
        InProcessMesh(tmp_path).fault("partition", "w")
    await refused(InProcessMesh(tmp_path).fault("memory_killed").start, "the mesh was not started")
    with pytest.raises(FailedPrecondition, match="an agent with links needs its registry"):
        InProcessMesh(tmp_path, links=True).agent_settings()
    async with InProcessMesh(tmp_path, links=True) as mesh:
        await refused(mesh.fault("partition", "stranger").start, "no instance of stranger is registered")
        settings = AgentSettings(registry=mesh.registry.address)
        async with FakeAgent("w", settings=settings) as agent:
            message = "the agent w has no link in this mesh: start it with the settings of `mesh.agent_settings"
            await refused(mesh.fault("partition", "w").start, message)
            await refused(mesh.fault("partition", agent).start, message)
        await mesh.memory.stop()
        await refused(mesh.fault("memory_killed").start, "the service is not running")


async def test_a_mesh_without_links_has_the_faults_that_need_none(tmp_path: Path) -> None:
    async with InProcessMesh(tmp_path) as mesh, AgentServer("w", handler=Worker(), settings=mesh.agent_settings()):
        for fault in mesh_faults.WITHOUT_LINKS:
            async with mesh.fault(fault):
                pass
        await listed(mesh, 1)
        assert await run(mesh) == "attempt 1"


async def test_the_time_of_a_mesh_is_not_moved_by_two_clocks(tmp_path: Path) -> None:
    async with InProcessMesh(tmp_path) as mesh:
        async with VirtualTime():
            await refused(lambda: mesh.advance(1), "outside of VirtualTime")
        await run_ready_tasks(1)
        await mesh.advance(1)
