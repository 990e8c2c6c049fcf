"""The mesh in a test's own loop, and the clock that moves it on."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from archon import AgentServer, TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import answer_text
from archon.errors import Unavailable
from archon.types import TaskState
from archon_services.testing.in_process import InProcessMesh
from tests.integration.services.orchestrator.troupe import durable, of


async def greet(task: TaskContext) -> str:
    return f"hello, {task.text}"


async def test_a_run_completes_on_a_mesh_in_this_loop(tmp_path: Path) -> None:
    async with InProcessMesh(tmp_path) as mesh, AgentServer("greeter", handler=greet, settings=mesh.agent_settings()):
        handle = await mesh.client.submit("world", roles=["greeter"], wait=10)
    assert answer_text(handle.run) == "hello, world"


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_an_orchestrator_continues_its_runs_at_its_address(tmp_path: Path, how: str) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def work(task: TaskContext) -> str:
        begun.set()
        await gate.wait()
        return f"attempt {task.attempt}"

    async with InProcessMesh(tmp_path) as mesh, AgentServer("w", handler=work, settings=mesh.agent_settings()):
        handle = await mesh.client.submit("x", roles=["w"])
        await begun.wait()
        address = mesh.orchestrator.address
        await getattr(mesh.orchestrator, how)()
        assert not mesh.orchestrator.running
        assert await mesh.orchestrator.start() == address
        gate.set()
        assert answer_text(await handle.result(timeout=10)) == "attempt 1"
        assert of(await durable(handle), "lost") == []


@pytest.mark.parametrize(("how", "losses"), [("stop", 0), ("kill", 1), ("failed start", 0)])
async def test_a_killed_orchestrator_does_not_release_its_runs(tmp_path: Path, how: str, losses: int) -> None:
    """An attempt whose instance is gone at the next start is lost only if its run was not released."""
    begun = asyncio.Event()

    async def work(task: TaskContext) -> str:
        begun.set()
        if task.attempt == 1:
            await asyncio.Event().wait()
        return f"attempt {task.attempt}"

    async with InProcessMesh(tmp_path) as mesh:
        agent = AgentServer("w", handler=work, settings=mesh.agent_settings())
        await agent.start()
        handle = await mesh.client.submit("x", roles=["w"])
        await begun.wait()
        await (mesh.orchestrator.kill() if how == "kill" else mesh.orchestrator.stop())
        if how == "failed start":  # it has claimed the run before it listens
            host, _, port = mesh.orchestrator.address.partition(":")
            with socket.create_server((host, int(port))), pytest.raises(Unavailable):
                await mesh.orchestrator.start()
        await agent.stop(0.0)
        await mesh.orchestrator.start()
        async with AgentServer("w", handler=work, settings=mesh.agent_settings()):
            assert answer_text(await handle.result(timeout=20)) == "attempt 2"
        assert len(of(await durable(handle), "lost")) == losses


async def test_a_service_that_cannot_start_raises_its_error(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with InProcessMesh(tmp_path) as mesh:
        taken = InProcessMesh(other, port=int(mesh.orchestrator.address.rpartition(":")[2]))
        with pytest.raises(Unavailable, match="is another process using the port"):
            await taken.start()
        assert not taken.registry.running, "what had been started is stopped"


async def test_the_clock_passes_limits_and_keeps_leases(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def work(task: TaskContext) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with (
        InProcessMesh(tmp_path) as mesh,
        AgentServer("w", handler=work, settings=mesh.agent_settings(ttl=3.0)),
    ):
        handle = await mesh.client.submit("x", roles=["w"], timeout=30.0)
        await begun.wait()
        before = time.monotonic()
        await mesh.advance(20.0)
        assert time.monotonic() - before >= 20.0
        run = await mesh.client.get(handle.run_id)
        assert (run.state, run.tasks[0].attempt) == (TaskState.WORKING, 1), "the agent's lease goes on"
        await mesh.advance(11.0)
        run = await handle.result(timeout=5)
        assert run.proto.failure.reason == failure_pb2.ERROR_REASON_RUN_TIMEOUT
        assert run.tasks[0].attempt == 1
