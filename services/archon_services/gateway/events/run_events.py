"""Streams of the events of runs, for visitors whose right to watch was checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.events.frames import Frame
from archon_services.gateway.events.hub import Hub
from archon_services.gateway.events.runs import RunWatches
from archon_services.gateway.events.topic import Fallen, Topic
from archon_services.gateway.events.viewer import frames_from, guarded, settled
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway

_HEADERS: Final = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
"""No cache keeps a stream, and no proxy compresses or holds back its pieces."""

Check = Callable[[Visitor], None]
"""Raises if the credentials of a visitor are not valid any more."""


class RunEvents:
    """The streams of all viewers of runs: one watch for each run and tenant. `check` is called each second."""

    def __init__(self, gateway: Gateway, watches: RunWatches, hub: Hub[Topic], check: Check) -> None:
        self._visitors, self._watches, self._hub, self._check = gateway.visitors, watches, hub, check

    async def stream(self, request: Request, send: Send, visitor: Visitor, run_id: str, after: int) -> None:
        """Streams the events after a number to a visitor. Raises the error of a watch that fails at once."""
        with self._visitors.stream(visitor):
            async with self._hub.viewing((visitor.caller.tenant, run_id)) as topic:
                await settled(topic)
                if topic.ended and after >= topic.last:
                    await Response(status_code=204)(request.scope, request.receive, send)  # ends its reconnecting
                    return
                await send_events(self._pieces(topic, visitor, run_id, after), request, send)

    async def _pieces(self, topic: Topic, visitor: Visitor, run_id: str, after: int) -> AsyncIterator[bytes]:
        while True:
            try:
                position = topic.position_after(after)
                break
            except Fallen:
                if topic.stopped:
                    position = topic.end_position
                    break
            early = self._watches.frames(visitor.caller.tenant, run_id, after, durable_only=True)
            async with aclosing(cast(AsyncGenerator[Frame, None], early)) as frames:
                async for frame in frames:
                    after = frame.number
                    yield frame.data
                    self._check(visitor)
                    if topic.has_after(after) or topic.stopped:
                        break
        async for piece in frames_from(topic, position, lambda: self._check(visitor)):
            yield piece


async def send_events(pieces: AsyncIterator[bytes], request: Request, send: Send) -> None:
    """Answers a request with a stream of events."""
    response = StreamingResponse(guarded(pieces), headers=_HEADERS, media_type="text/event-stream")
    await response(request.scope, request.receive, send)


@asynccontextmanager
async def opened_run_events(gateway: Gateway, check: Check) -> AsyncIterator[RunEvents]:
    """The streams of runs for the duration of the block."""
    watches = RunWatches(gateway)

    def topic(key: Any, budget: ByteBudget) -> Topic:
        tenant, run_id = key
        return Topic(f"events of {run_id}", lambda after: watches.frames(tenant, run_id, after), budget)

    hub = Hub[Topic](topic)
    gateway.on_stop.append(hub.end)
    try:
        yield RunEvents(gateway, watches, hub, check)
    finally:
        await hub.close()
