"""The room of AG-UI: `POST /agui` for the mesh, `POST /agui/ROLE` for a role."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from archon.registry import RegistryClient
from archon_services.gateway.agents import AgentDirectory
from archon_services.gateway.callers import Callers
from archon_services.gateway.room import Gateway

if TYPE_CHECKING:
    from archon_services.gateway.agui.routes import AgentRoutes, RunRoute

ROUTES: Final = "archon_services.gateway.agui.routes"


class LateRoutes:
    """The routes of the room, whose modules are imported at the first request: the types of the protocol are many, and
    the gateway would start later. The import is in a thread."""

    def __init__(self, callers: Callers, stop: asyncio.Event, directory: AgentDirectory) -> None:
        self._callers, self._stop, self._directory = callers, stop, directory
        self._loading = asyncio.Lock()
        self._made: tuple[RunRoute, AgentRoutes] | None = None

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of AG-UI with the event stream of a new run."""
        await (await self._routes())[0](scope, receive, send)

    async def describe(self, request: Request) -> Response:
        """Answers with the capabilities of an agent."""
        return await (await self._routes())[1].describe(request)

    async def stop(self, request: Request) -> Response:
        """Cancels the unfinished runs of a thread."""
        return await (await self._routes())[1].stop(request)

    async def close(self) -> None:
        """Waits for cancellations in progress."""
        if self._made is not None:
            await self._made[0].close()

    async def _routes(self) -> tuple[RunRoute, AgentRoutes]:
        async with self._loading:
            if self._made is None:
                module = await asyncio.to_thread(importlib.import_module, ROUTES)
                run = module.RunRoute(self._callers, self._directory, self._stop)
                self._made = run, module.AgentRoutes(self._callers, self._directory)
            return self._made


class _RunApplication:
    """The route that runs an agent, as an ASGI application: it sends its stream itself."""

    def __init__(self, late: LateRoutes) -> None:
        self._late = late

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._late.run(scope, receive, send)


@asynccontextmanager
async def agui_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves AG-UI for the duration of the block, and yields its routes."""
    stop = asyncio.Event()
    gateway.on_stop.append(stop.set)
    async with AsyncExitStack() as stack:
        callers = await stack.enter_async_context(Callers(gateway))
        registry = RegistryClient(gateway.settings.registry)
        stack.push_async_callback(registry.close)
        late = LateRoutes(callers, stop, AgentDirectory(registry))
        stack.push_async_callback(late.close)
        run: Any = _RunApplication(late)
        routes: list[BaseRoute] = []
        for path in ("/agui", "/agui/{role}"):
            routes += [
                Route(path, run, methods=["POST"]),
                Route(path, late.describe, methods=["GET"]),
                Route(f"{path}/stop/{{thread:path}}", late.stop, methods=["POST"]),
            ]
        yield routes
