"""Tells clients about changes of the tools, the prompts, the resources, and the content of one resource.

From version 2026-07-28 of the protocol on a client listens for named changes. Before, it subscribes to resources.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from archon_mesh.tools.mcp.serving.client import LEVELS, LogLevel
from archon_mesh.tools.mcp.serving.offer import Changed, McpOffer
from archon_mesh.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent

MAX_LISTENERS: Final = 256
"""Clients that listen for changes at the same time."""

MAX_SUBSCRIPTIONS: Final = 1_024
"""Subscriptions to resources, and sessions with a log level, that are remembered; then the oldest is forgotten."""


class Changes:
    """The changes of an offer and of a registry, for the clients of one server."""

    def __init__(self, offer: McpOffer, registry: ToolRegistry) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus

        self.bus = InMemorySubscriptionBus()
        self._offer = offer
        self._registry = registry
        self._subscriptions: OrderedDict[tuple[str, str], ServerSession] = OrderedDict()
        self._levels: OrderedDict[str, LogLevel] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._ends: list[Callable[[], None]] = []

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[dict[str, Any]]:
        """Watches within the block. Blocks of several connections may overlap."""
        from mcp.server.subscriptions import ToolsListChanged

        loop = asyncio.get_running_loop()
        if self._connections == 0:
            self._ends = [
                self._offer.watch(lambda change: self._later(loop, change)),
                self._registry.watch(lambda: self._later(loop, ToolsListChanged())),
            ]
        self._connections += 1
        try:
            yield {}
        finally:
            self._connections -= 1
            if self._connections == 0:
                for end in self._ends:
                    end()

    def subscribe(self, context: ServerRequestContext[Any], uri: str) -> None:
        """Remembers that a client wants to know when a resource changes."""
        _remember(self._subscriptions, (_session_of(context), uri), context.session)

    def unsubscribe(self, context: ServerRequestContext[Any], uri: str) -> None:
        """Forgets a subscription."""
        self._subscriptions.pop((_session_of(context), uri), None)

    def set_level(self, context: ServerRequestContext[Any], level: LogLevel) -> None:
        """Remembers the least severe level of the log messages that a client gets."""
        _remember(self._levels, _session_of(context), level)

    def level_of(self, context: ServerRequestContext[Any]) -> LogLevel | None:
        """Returns the least severe level of the log messages for a request, None for none. Before version 2026-07-28 a
        client that has not set one gets those from `info`."""
        from mcp_types import LOG_LEVEL_META_KEY
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return self._levels.get(_session_of(context), "info")
        meta: Any = context.meta or {}
        level = meta.get(LOG_LEVEL_META_KEY)
        return level if level in LEVELS else None

    def _later(self, loop: asyncio.AbstractEventLoop, change: Changed | ServerEvent) -> None:
        """Tells a change in the server's loop: it may have been made in another thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._begin, change)

    def _begin(self, change: Changed | ServerEvent) -> None:
        task = asyncio.create_task(self._tell(change), name="tell MCP clients a change")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, change: Changed | ServerEvent) -> None:
        from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated

        if not isinstance(change, Changed):
            await self.bus.publish(change)
        elif change.kind == "resource":
            await self.bus.publish(ResourceUpdated(change.uri))
            for (_, uri), session in list(self._subscriptions.items()):
                if uri == change.uri:
                    await session.send_resource_updated(uri)
        else:
            await self.bus.publish(PromptsListChanged() if change.kind == "prompts" else ResourcesListChanged())


def _session_of(context: ServerRequestContext[Any]) -> str:
    """Returns the id of the client's session; over pipes there is one client, without an id."""
    headers = getattr(context.request, "headers", None) or {}
    return str(headers.get("mcp-session-id") or "")


def _remember(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > MAX_SUBSCRIPTIONS:
        kept.popitem(last=False)
