"""The room of server-sent events: `GET /events/runs/RUN` and `GET /events/registry`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.events import registry, runs
from archon_services.gateway.events.frames import Frame, resume_after
from archon_services.gateway.events.hub import Hub
from archon_services.gateway.events.registry import RegistryTopic
from archon_services.gateway.events.runs import RunWatches
from archon_services.gateway.events.topic import Fallen, Topic
from archon_services.gateway.events.viewer import frames_from, guarded, settled
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway

_HEADERS: Final = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
"""No cache keeps a stream, and no proxy compresses or holds back its pieces."""

MAX_ID: Final = 200
"""Characters of the id of a run in an address; a longer one is of no run."""


class RunEvents:
    """Streams the events of a run to a viewer."""

    def __init__(self, gateway: Gateway, watches: RunWatches, hub: Hub[Topic]) -> None:
        self._visitors, self._watches, self._hub = gateway.visitors, watches, hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        after = resume_after(request.headers, request.query_params)
        visitor = self._visitors.of(request.headers, runs.WATCH_RUN)
        await self.stream(request, send, visitor, request.path_params["run_id"][:MAX_ID], after)

    async def stream(self, request: Request, send: Send, visitor: Visitor, run_id: str, after: int) -> None:
        """Streams to a visitor whose right to watch the run has been checked."""
        with self._visitors.stream(visitor):
            async with self._hub.viewing((visitor.caller.tenant, run_id)) as topic:
                await settled(topic)
                if topic.ended and after >= topic.last:
                    await Response(status_code=204)(request.scope, request.receive, send)  # ends its reconnecting
                    return
                pieces = self._pieces(topic, visitor, run_id, after)
                await _stream(pieces, request, send)

    async def _pieces(self, topic: Topic, visitor: Visitor, run_id: str, after: int) -> AsyncIterator[bytes]:
        while True:
            try:
                position = topic.position_after(after)
                break
            except Fallen:
                pass
            early = self._watches.frames(visitor.caller.tenant, run_id, after, durable_only=True)
            async with aclosing(early) as frames:  # type: ignore[type-var]
                async for frame in frames:
                    after = frame.number
                    yield frame.data
                    self._visitors.check(visitor)
                    if topic.has_after(after):
                        break
        async for piece in frames_from(topic, position, lambda: self._visitors.check(visitor)):
            yield piece


class RegistryEvents:
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
                await _stream(self._pieces(topic, visitor, after), request, send)

    async def _pieces(self, topic: RegistryTopic, visitor: Visitor, after: int) -> AsyncIterator[bytes]:
        opening: Frame | None = None
        position = topic.end_position
        if topic.known:
            opening, position = topic.opening(after)
        if opening is not None:
            yield opening.data
        async for piece in frames_from(topic, position, lambda: self._visitors.check(visitor)):
            yield piece


async def _stream(pieces: AsyncIterator[bytes], request: Request, send: Send) -> None:
    response = StreamingResponse(guarded(pieces), headers=_HEADERS, media_type="text/event-stream")
    await response(request.scope, request.receive, send)


@asynccontextmanager
async def events_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/events/runs/RUN` and `/events/registry`."""
    watches = RunWatches(gateway)

    def run_topic(key: Any, budget: ByteBudget) -> Topic:
        tenant, run_id = key
        return Topic(f"events of {run_id}", lambda after: watches.frames(tenant, run_id, after), budget)

    def registry_topic(key: Hashable, budget: ByteBudget) -> RegistryTopic:
        return RegistryTopic(gateway, str(key), budget)

    run_hub, registry_hub = Hub[Topic](run_topic), Hub[RegistryTopic](registry_topic)
    run_events: Any = RunEvents(gateway, watches, run_hub)
    registry_events: Any = RegistryEvents(gateway, registry_hub)
    try:
        yield [
            Route("/events/runs/{run_id}", run_events, methods=["GET"]),
            Route("/events/registry", registry_events, methods=["GET"]),
        ]
    finally:
        await run_hub.close()
        await registry_hub.close()
