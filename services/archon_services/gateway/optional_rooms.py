"""The rooms whose packages are optional. The one of A2A is loaded after the gateway has begun to serve: its package
takes longer to import than all others together."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from archon.background import BackgroundLoop
from archon_services.gateway.room import Gateway, Room

_log = logging.getLogger(__name__)

LATER: Final = 5.0
"""Seconds after the start of the gateway at which A2A is loaded, unless a request comes before: by then the other
processes of a mesh on the same machine have started."""

PREFIXES: Final = ("/a2a", "/.well-known/agent-card.json", "/.well-known/jwks.json")
"""Paths of A2A begin with one of these."""

NEEDLESS: Final = ("sqlalchemy", "httpx._main")
"""Modules that the package of A2A imports if they are installed, for parts of it that are not used here: a store of
tasks in a database, and a command line. They are a third of its import, and 20 MB."""


def optional_rooms() -> Iterator[Room]:
    """Yields the rooms whose packages are installed."""
    if find_spec("a2a") is not None:
        yield later_a2a_room
    else:
        _log.info("A2A is not served: archon-mesh[a2a] is not installed")


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


def _load() -> Room:
    with _hidden(NEEDLESS):
        room: Room = import_module("archon_services.gateway.a2a.room").a2a_room
    return room


class LaterRoute(BaseRoute):
    """The routes of A2A, which the first request loads, or `load`."""

    def __init__(self, gateway: Gateway, stack: AsyncExitStack) -> None:
        self._gateway, self._stack = gateway, stack
        self._lock = asyncio.Lock()
        self._router: Router | None = None

    async def load(self) -> Router:
        """Returns the routes. Raises the errors of the room."""
        async with self._lock:
            if self._router is None:
                room = await asyncio.to_thread(_load)
                self._router = Router(await self._stack.enter_async_context(room(self._gateway)))
            return self._router

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Matches all paths of A2A."""
        return (Match.FULL if scope["path"].startswith(PREFIXES) else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        router = await self.load()
        await router(scope, receive, send)


@asynccontextmanager
async def later_a2a_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves A2A: at once if a setting of it could have a fault, else soon. Raises the errors of its room."""
    settings = gateway.settings
    async with AsyncExitStack() as stack:
        route = LaterRoute(gateway, stack)

        async def soon() -> None:
            await asyncio.sleep(LATER)
            await route.load()

        loading = BackgroundLoop("load A2A", soon)
        if settings.a2a_grpc_port or settings.a2a_key or settings.a2a_grpc_target:
            await route.load()
        else:
            loading.start()
        try:
            yield [route]
        finally:
            await loading.close()
