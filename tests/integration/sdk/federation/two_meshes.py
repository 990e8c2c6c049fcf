"""Two meshes in the test's loop, and gateways from one to the other."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.client import RunHandle
from archon.federation import PARENT_RUN_KEY, MeshGateway, RunChoice, gateway_server
from archon.types import Run, RunEvent, RunQuestion
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually

NEAR, FAR = "near-mesh-id", "far-mesh-id"

Handler = Callable[[TaskContext], Any]


class TwoMeshes:
    """`near` has gateways to `far`. Agents and gateways end with the test."""

    def __init__(self, near: Mesh, far: Mesh, stack: AsyncExitStack) -> None:
        self.near = near
        self.far = far
        self._stack = stack

    async def agent(self, mesh: Mesh, role: str, handler: Handler, **more: Any) -> AgentServer:
        """Starts an agent whose mesh has a session with it."""
        server = AgentServer(role, handler=handler, settings=AgentSettings(registry=mesh.registry.address), **more)
        await self.serve(server)
        return server

    async def gateway(
        self, role: str, *roles: str, mesh: Mesh | None = None, to: Mesh | None = None, name: str = "far", **more: Any
    ) -> AgentServer:
        """Starts a gateway from `near` to `far`, or from `mesh` to another one, whose runs go to `roles`."""
        more.setdefault("mesh_id", NEAR if mesh in (None, self.near) else FAR)
        more.setdefault("choice", RunChoice(roles=roles, strategy="agent" if len(roles) == 1 else ""))
        gateway = MeshGateway(name, lambda: (to or self.far).orchestrator.address, **more)
        await self._stack.enter_async_context(gateway)
        registry = (mesh or self.near).registry.address
        server = gateway_server(gateway, role, settings=AgentSettings(registry=registry))
        await self.serve(server)
        return server

    async def serve(self, server: AgentServer) -> None:
        """Starts a server, and waits until its mesh has a session with it."""
        await server.start()
        self._stack.push_async_callback(server.stop, 0.0)

        async def known() -> bool:
            return bool(server._sessions)

        await eventually(known)

    async def child_of(self, handle: RunHandle) -> Run:
        """Waits until the run has a run in `far`, its only one, and returns that."""
        found: list[Run] = []

        async def look() -> bool:
            found[:] = await self.children_of(handle)
            return bool(found)

        await eventually(look)
        (child,) = found
        return child

    async def children_of(self, handle: RunHandle) -> list[Run]:
        """Returns the runs in `far` that are tasks of a run."""
        listed = await self.far.client.list_runs(limit=1_000)
        runs = [await self.far.client.get(run.run_id) for run in listed if run.create_time >= handle.run.create_time]
        return [run for run in runs if run.metadata.get(PARENT_RUN_KEY) == handle.run_id]


def unique(prefix: str) -> str:
    """Returns the name of a role that no other test has."""
    return f"{prefix}-{uuid.uuid4().hex[:6]}"


async def question_of(mesh: Mesh, run_id: str, *, other_than: str = "") -> RunQuestion:
    """Waits until the run has a question, another one than the named one, and returns it."""
    questions: list[RunQuestion] = []

    async def look() -> bool:
        questions[:] = [each for each in (await mesh.client.get(run_id)).questions if each.input_id != other_than]
        return bool(questions)

    await eventually(look)
    return questions[0]


async def durable(handle: RunHandle) -> list[RunEvent]:
    """Waits until the run has ended and returns its durable events."""
    return [event async for event in handle.events() if event.seq]


@pytest.fixture(scope="module")
async def shared_meshes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Mesh, Mesh]]:
    near, far = Mesh(tmp_path_factory.mktemp("near")), Mesh(tmp_path_factory.mktemp("far"))
    async with AsyncExitStack() as stack:
        for mesh in (near, far):
            stack.push_async_callback(mesh.stop)
            await mesh.start()
        yield near, far


@pytest.fixture
async def two_meshes(shared_meshes: tuple[Mesh, Mesh]) -> AsyncIterator[TwoMeshes]:
    """Two meshes that a module shares."""
    async with AsyncExitStack() as stack:
        yield TwoMeshes(*shared_meshes, stack)


async def own_two_meshes(folder: Path, stack: AsyncExitStack) -> TwoMeshes:
    """Returns two meshes for a test that changes one of them; they end with the stack."""
    near, far = Mesh(folder / "near"), Mesh(folder / "far")
    for mesh in (near, far):
        mesh.home.mkdir()
        stack.push_async_callback(mesh.stop)
        await mesh.start()
    return TwoMeshes(near, far, stack)


@pytest.fixture
async def own_meshes(tmp_path: Path) -> AsyncIterator[TwoMeshes]:
    """Two meshes for a test that changes one of them."""
    async with AsyncExitStack() as stack:
        yield await own_two_meshes(tmp_path, stack)


async def ended(mesh: Mesh, run_id: str) -> Run:
    """Waits for the end of a run, and returns it."""
    async for _ in mesh.client.watch(run_id, durable_only=True):
        pass
    return await mesh.client.get(run_id)
