"""The room of AG-UI: `POST /agui` for the mesh, `POST /agui/ROLE` for a role."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.routing import BaseRoute, Route

from archon.registry import RegistryClient
from archon_services.gateway.agents import AgentDirectory
from archon_services.gateway.agui.routes import AgentRoutes, RunRoute
from archon_services.gateway.callers import Callers
from archon_services.gateway.room import Gateway


@asynccontextmanager
async def agui_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves AG-UI for the duration of the block, and yields its routes."""
    stop = asyncio.Event()
    gateway.on_stop.append(stop.set)
    async with AsyncExitStack() as stack:
        callers = await stack.enter_async_context(Callers(gateway))
        registry = RegistryClient(gateway.settings.registry)
        stack.push_async_callback(registry.close)
        directory = AgentDirectory(registry)
        runs = RunRoute(callers, directory, stop)
        stack.push_async_callback(runs.close)
        agents = AgentRoutes(callers, directory)
        run: Any = runs
        routes: list[BaseRoute] = []
        for path in ("/agui", "/agui/{role}"):
            routes += [
                Route(path, run, methods=["POST"]),
                Route(path, agents.describe, methods=["GET"]),
                Route(f"{path}/stop/{{thread:path}}", agents.stop, methods=["POST"]),
            ]
        yield routes
