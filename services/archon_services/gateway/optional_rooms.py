"""The rooms whose packages are optional, and the reports. They are loaded after the gateway has begun to serve: their
packages take longer to import than all others together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from archon.background import BackgroundLoop
from archon.errors import Unavailable
from archon_services.gateway.room import Gateway, Room
from archon_services.gateway.settings import GatewaySettings

_log = logging.getLogger(__name__)

LATER: Final = 5.0
"""Seconds after the start of the gateway at which the rooms are loaded, unless a request comes before: by then the
other processes of a mesh on the same machine have started."""

SECONDS: Final = 30.0
"""The time that a request waits for its room to be loaded."""


@dataclass(frozen=True, slots=True)
class OptionalRoom:
    """A room that needs a package, which the `extra` of archon-mesh installs.

    `function` is its asynchronous context manager in `module`; paths of the room begin with one of `prefixes`.
    `needless` are modules that the package imports if they are installed, for parts of it that are not used here.
    `at_once` says whether settings have to be checked before the gateway serves.
    """

    name: str
    extra: str
    package: str
    module: str
    function: str
    prefixes: tuple[str, ...]
    needless: tuple[str, ...] = ()
    at_once: Callable[[GatewaySettings], bool] = lambda settings: False

    def load(self) -> Room:
        """Imports the room."""
        with _hidden(self.needless):
            room: Room = getattr(import_module(self.module), self.function)
        return room


A2A: Final = OptionalRoom(
    "A2A",
    "a2a",
    "a2a",
    "archon_services.gateway.a2a.room",
    "a2a_room",
    ("/a2a", "/.well-known/agent-card.json", "/.well-known/jwks.json"),
    needless=("sqlalchemy", "httpx._main"),  # a store of tasks and a command line: a third of the import, and 20 MB
    at_once=lambda settings: bool(settings.a2a_grpc_port or settings.a2a_key or settings.a2a_grpc_target),
)

MCP: Final = OptionalRoom(
    "MCP",
    "mcp",
    "mcp",
    "archon_services.gateway.mcp.room",
    "mcp_room",
    ("/mcp", "/.well-known/oauth-protected-resource"),
)

AGUI: Final = OptionalRoom("AG-UI", "agui", "ag_ui", "archon_services.gateway.agui.room", "agui_room", ("/agui",))

REPORTS: Final = OptionalRoom(
    "the reports", "", "jinja2", "archon_services.gateway.reports.room", "reports_room", ("/reports/",)
)
"""Its package is one of archon-mesh itself, so that it is always served."""

_ROOMS: Final = (A2A, MCP, AGUI, REPORTS)


def optional_rooms() -> Iterator[Room]:
    """Yields the rooms whose packages are installed."""
    for room in _ROOMS:
        if find_spec(room.package) is not None:
            yield later(room)
        else:
            _log.info("%s is not served: archon-mesh[%s] is not installed", room.name, room.extra)


def later(room: OptionalRoom) -> Room:
    """Returns a room that is loaded later: by its first request, or some seconds after the start."""

    @asynccontextmanager
    async def opened(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
        """Serves the room. Raises its errors if it has to be loaded at once."""
        route = LaterRoute(room, gateway)
        owner = BackgroundLoop(f"serve {room.name}", route.serve)
        owner.start()
        try:
            if room.at_once(gateway.settings):
                await route.load()
            yield [route]
        finally:
            await owner.close()

    return opened


class LaterRoute(BaseRoute):
    """The routes of a room. `serve` owns the room: it loads, enters and leaves it in one task, as task
    groups want it."""

    def __init__(self, room: OptionalRoom, gateway: Gateway) -> None:
        self._room, self._gateway = room, gateway
        self._wanted = asyncio.Event()
        self._router: asyncio.Future[Router] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        """Serves the room from its first request on, or from LATER seconds on, until the task is cancelled. Raises the
        errors of the room, which those who wait for it get, too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LATER):
                await self._wanted.wait()
        try:
            room = await asyncio.to_thread(self._room.load)
            async with room(self._gateway) as routes:
                self._router.set_result(Router(routes))
                await asyncio.Event().wait()
        except Exception as error:
            if not self._router.done():
                self._router.set_exception(error)
                self._router.exception()  # perhaps no request has waited for it
            self._wanted.clear()
            self._router = asyncio.get_running_loop().create_future()
            raise

    async def load(self) -> Router:
        """Returns the routes. Raises the errors of the room."""
        self._wanted.set()
        return await asyncio.shield(self._router)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Matches all paths of the room."""
        return (Match.FULL if scope["path"].startswith(self._room.prefixes) else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request. Raises Unavailable if the room is not loaded in time."""
        try:
            async with asyncio.timeout(SECONDS):
                router = await self.load()
        except TimeoutError:
            raise Unavailable(f"{self._room.name} is being loaded", retry_delay=1.0) from None
        await router(scope, receive, send)


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Modules cannot be imported within the block, unless they were before."""
    hidden = [name for name in names if name not in sys.modules]
    nothing: Any = None
    sys.modules.update(dict.fromkeys(hidden, nothing))
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
