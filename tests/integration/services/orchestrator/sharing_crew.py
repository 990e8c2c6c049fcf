"""Agents in the test's process that use the shared memory of their runs."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


class Crew:
    """Starts agents that know the memory service, each a role of its own."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self._mesh = mesh
        self._stack = stack
        self.agents: dict[str, AgentServer] = {}

    async def __call__(self, handler: Any, role: str = "", **more: Any) -> str:
        """Starts an agent whose mesh has a session with it, and returns its role."""
        role = role or f"worker-{uuid.uuid4().hex[:6]}"
        settings = AgentSettings(registry=self._mesh.registry.address, memory=self._mesh.memory.address)
        server = AgentServer(role, handler=handler, settings=settings, **more)
        await self._stack.enter_async_context(server)
        self.agents[role] = server

        async def known() -> bool:
            return bool(server._sessions)

        await eventually(known)
        return role


@pytest.fixture
async def crew(mesh: Mesh) -> AsyncIterator[Crew]:
    """Agents of one test that join the module's mesh."""
    async with AsyncExitStack() as stack:
        yield Crew(mesh, stack)
