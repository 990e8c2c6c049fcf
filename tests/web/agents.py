"""Agents in the test's process, as members of the mesh whose page is tested."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.security import credentials, keys
from archon_services.local_mesh import Home
from tests.web.page_mesh import WebMesh

Handler = Callable[[TaskContext], Awaitable[object]]


@asynccontextmanager
async def serving(web: WebMesh, role: str, handler: Handler) -> AsyncIterator[None]:
    """An agent of this role during the block, with a token of the mesh."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(credentials.TOKEN, web.mesh.token(role))
        patch.setenv(keys.VARIABLE, str(Home(web.mesh.home).folder.keys_file))
        async with AgentServer(role, handler=handler, settings=AgentSettings(registry=web.mesh.registry)):
            yield
