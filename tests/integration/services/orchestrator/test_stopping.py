"""Stopping on purpose: attempts that end with a SIGTERM are given back, which counts as no loss. Real processes."""

from __future__ import annotations

import asyncio
import signal

import pytest

from archon.agent.settings import DRAIN_GRACE
from archon.api.common.v1 import failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.engine.decide.retries import RECOVERY, Kind
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel
from archon_mesh.node import Role
from archon_services.agents.app import agent_app
from archon_services.agents.settings import AgentServiceSettings
from tests.fixtures.mesh import Mesh
from tests.fixtures.scripted_model import says
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import durable, of

pytestmark = pytest.mark.liveness

COMPLETED = TaskState.COMPLETED
WITHIN = 60.0
LOSSES = RECOVERY[Kind.LOST].tries
"""The losses that end a task."""


async def begun(mesh: Mesh, attempt: int) -> None:
    """Waits until an attempt at the task has begun."""

    async def look() -> bool:
        return ("solo", attempt) in mesh.executions("begin")

    await eventually(look, WITHIN)


async def completes(mesh: Mesh, handle: RunHandle, *, attempts: int) -> list[run_pb2.RunEvent]:
    """Waits for the end of the run: completed, after so many attempts, none of which was lost. Returns its events."""
    run = await handle.result(timeout=WITHIN)
    assert (run.state, run.tasks[0].attempt) == (COMPLETED, attempts)
    events = await durable(handle)
    assert of(events, "lost") == []
    assert {event.rejected.failure.reason for event in of(events, "rejected")} <= {failure_pb2.ERROR_REASON_DRAINING}
    assert mesh.executions() == [("solo", attempts)]
    return events


async def restarted(process: ServiceProcess, **environment: str) -> None:
    """Starts a process again with other settings."""
    process.environment |= environment
    await process.start()


@pytest.mark.search
async def test_a_run_survives_six_rolling_restarts_of_its_agent(own_mesh: Mesh) -> None:
    mesh = own_mesh
    agent = await mesh.agent_process("solo", delay=300.0, ARCHON_DRAIN="0.2")
    handle = await mesh.client.submit("x", roles=["solo"])
    for restart in range(1, 7):
        await begun(mesh, restart)
        assert await agent.stop() == 0
        await restarted(agent, ECHO_DELAY="300" if restart < 6 else "0")
    events = await completes(mesh, handle, attempts=7)
    assert len(of(events, "rejected")) == 6


class SlowModel(ScriptedModel):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.called = asyncio.Event()

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.called.set()
        await asyncio.Event().wait()
        return says("never")


async def test_an_agent_service_gives_its_tasks_back_after_its_drain(own_mesh: Mesh) -> None:
    mesh = own_mesh
    model = SlowModel()
    role, settings = Role("solo", "You answer."), AgentServiceSettings(registry=mesh.registry.address, drain=0.2)
    async with asyncio.timeout(DRAIN_GRACE - 5):
        async with agent_app(role, Agent("solo", model=model), settings):
            handle = await mesh.client.submit("x", roles=["solo"])
            await model.called.wait()
    await mesh.agent("solo")
    run = await handle.result(timeout=WITHIN)
    assert (run.state, run.tasks[0].attempt) == (COMPLETED, 2)


async def test_an_agent_that_is_killed_while_it_drains_loses_nothing(own_mesh: Mesh) -> None:
    mesh = own_mesh
    agent = await mesh.agent_process("solo", delay=300.0)
    handle = await mesh.client.submit("x", roles=["solo"])
    for attempt in range(1, LOSSES + 2):
        await begun(mesh, attempt)
        agent.send(signal.SIGTERM)
        await mesh.seen(agent.address, gone=True, within=WITHIN)  # it deregisters after it has announced its drain
        await mesh.advance(0.5)  # the orchestrator has read it: a killed process may take with it what was not read
        await agent.kill()
        await restarted(agent, ECHO_DELAY="300" if attempt <= LOSSES else "0")
    events = await completes(mesh, handle, attempts=LOSSES + 2)
    assert len(of(events, "rejected")) == LOSSES + 1, "each kill ended an attempt"


@pytest.mark.search
@pytest.mark.parametrize("first", ["orchestrator", "agents"])
async def test_a_run_continues_after_the_whole_mesh_was_stopped(own_mesh: Mesh, first: str) -> None:
    mesh = own_mesh
    agent = await mesh.agent_process("solo", delay=300.0, ARCHON_DRAIN="0.2")
    handle = await mesh.client.submit("x", roles=["solo"])
    for stop in range(1, LOSSES + 2):
        await begun(mesh, stop)
        order = [mesh.orchestrator, agent] if first == "orchestrator" else [agent, mesh.orchestrator]
        for process in (*order, mesh.memory, mesh.registry):
            assert await process.stop() == 0
        for process in (mesh.registry, mesh.memory, mesh.orchestrator):
            await process.start()
        await restarted(agent, ECHO_DELAY="300" if stop <= LOSSES else "0")
    await completes(mesh, handle, attempts=LOSSES + 2)


async def test_an_agent_that_outlives_its_orchestrators_stop_keeps_its_task(own_mesh: Mesh) -> None:
    mesh = own_mesh
    gate = asyncio.Event()
    await mesh.agent("solo", gate=gate)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, 1)
    await mesh.orchestrator.stop()
    await mesh.orchestrator.start()
    gate.set()
    await completes(mesh, handle, attempts=1)


async def test_restarts_of_registry_and_memory_leave_attempts_alone(own_mesh: Mesh) -> None:
    mesh = own_mesh
    gate = asyncio.Event()
    await mesh.agent("solo", gate=gate)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, 1)
    for _ in range(LOSSES + 1):
        for service in (mesh.memory, mesh.registry):
            assert await service.stop() == 0
            await service.start()
    gate.set()
    await completes(mesh, handle, attempts=1)


async def test_the_death_of_orchestrator_and_agent_counts_as_a_loss(own_mesh: Mesh) -> None:
    mesh = own_mesh
    agent = await mesh.agent_process("solo", delay=300.0)
    handle = await mesh.client.submit("x", roles=["solo"])
    await begun(mesh, 1)
    await mesh.orchestrator.kill()
    await agent.kill()
    await mesh.orchestrator.start()
    await restarted(agent, ECHO_DELAY="0")
    assert (await handle.result(timeout=WITHIN)).state == COMPLETED
    assert len(of(await durable(handle), "lost")) == 1
