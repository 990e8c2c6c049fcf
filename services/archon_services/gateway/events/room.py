"""The room of server-sent events: `GET /events/runs/RUN` and `GET /events/registry`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.events import registry
from archon_services.gateway.events.frames import resume_after
from archon_services.gateway.events.registry import RegistryTopic
from archon_services.gateway.events.run_events import RunEvents, send_events
from archon_services.gateway.events.viewer import frames_from
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches import runs
from archon_services.gateway.watches.batches import settled
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.hub import Hub

MAX_ID: Final = 200
"""Characters of the id of a run in an address; a longer one is of no run."""


class WatchRunRoute:
    """Streams the events of a run to a viewer."""

    def __init__(self, gateway: Gateway, run_events: RunEvents) -> None:
        self._visitors, self._run_events = gateway.visitors, run_events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        after = resume_after(request.headers, request.query_params)
        visitor = self._visitors.of(request.headers, runs.WATCH_RUN)
        await self._run_events.stream(request, send, visitor, request.path_params["run_id"][:MAX_ID], after)


class WatchRegistryRoute:
    """Streams the instances and the graph of the viewer's tenant, and their changes."""

    def __init__(self, gateway: Gateway, hub: Hub[RegistryTopic]) -> None:
        self._visitors, self._hub = gateway.visitors, hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        after = resume_after(request.headers, request.query_params)
        visitor = self._visitors.of(request.headers, registry.WATCH)
        with self._visitors.stream(visitor):
            async with self._hub.viewing(visitor.caller.tenant) as topic:
                await settled(topic)
                await send_events(self._pieces(topic, visitor, after), request, send)

    async def _pieces(self, topic: RegistryTopic, visitor: Visitor, after: int) -> AsyncIterator[bytes]:
        opening: Frame | None = None
        position = topic.end_position
        if topic.known:
            opening, position = topic.opening(after)
        if opening is not None:
            yield opening.data
        async for piece in frames_from(topic, position, lambda: self._visitors.check(visitor)):
            yield piece


@asynccontextmanager
async def events_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/events/runs/RUN` and `/events/registry`."""

    def registry_topic(key: Hashable, budget: ByteBudget) -> RegistryTopic:
        return RegistryTopic(gateway, str(key), budget)

    hub = Hub[RegistryTopic](registry_topic)
    gateway.on_stop.append(hub.end)
    run_route: Any = WatchRunRoute(gateway, RunEvents(gateway, gateway.visitors.check))
    registry_route: Any = WatchRegistryRoute(gateway, hub)
    try:
        yield [
            Route("/events/runs/{run_id}", run_route, methods=["GET"]),
            Route("/events/registry", registry_route, methods=["GET"]),
        ]
    finally:
        await hub.close()
