"""The events of runs for visitors whose right to watch was checked: from the journal, and then from the watch that all
viewers of a run share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from archon_services.gateway.events.viewer import frames_from, guarded
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches.batches import REACHED_WITHIN, batches_from, settled
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.topic import Topic

Check = Callable[[Visitor], None]
"""Raises if the credentials of a visitor are not valid any more."""


class RunEvents:
    """The streams of all viewers of runs: one watch for each run and tenant. `check` is called each second."""

    def __init__(self, gateway: Gateway, check: Check) -> None:
        self._visitors, self._watches, self._check = gateway.visitors, gateway.run_watches, check

    async def stream(self, request: Request, send: Send, visitor: Visitor, run_id: str, after: int) -> None:
        """Streams the events after a number to a visitor. Raises the error of a watch that fails at once."""
        with self._visitors.stream(visitor):
            async with self._watches.viewing(visitor.caller.tenant, run_id) as topic:
                await settled(topic)
                if topic.ended and after >= topic.last:
                    await Response(status_code=204)(request.scope, request.receive, send)  # ends its reconnecting
                    return
                await topic.reach(after, REACHED_WITHIN)
                await send_events(self._pieces(topic, visitor, run_id, after), request, send)

    async def batches(self, visitor: Visitor, run_id: str, after: int) -> AsyncGenerator[Sequence[Frame], None]:
        """Yields the events after a number, and an empty batch if nothing happens for a while, as the RPC `WatchRun`
        does, whose errors it raises. Raises Fallen if the visitor is too slow."""
        with self._visitors.stream(visitor):
            async with self._watches.viewing(visitor.caller.tenant, run_id) as topic:
                interruptions = topic.interruptions
                await settled(topic)
                await topic.reach(after, REACHED_WITHIN)
                async with aclosing(self._earlier(topic, visitor, run_id, after)) as frames:
                    async for frame in frames:
                        after = frame.number
                        yield (frame,)
                position = topic.end_position if topic.stopped else topic.position_after(after)
                check = self._checking(visitor)
                async with aclosing(batches_from(topic, position, check, interruptions=interruptions)) as batches:
                    async for batch in batches:
                        yield batch

    async def _pieces(self, topic: Topic, visitor: Visitor, run_id: str, after: int) -> AsyncIterator[bytes]:
        async with aclosing(self._earlier(topic, visitor, run_id, after)) as frames:
            async for frame in frames:
                after = frame.number
                yield frame.data
        position = topic.end_position if topic.stopped else topic.position_after(after)
        async for piece in frames_from(topic, position, self._checking(visitor)):
            yield piece

    async def _earlier(self, topic: Topic, visitor: Visitor, run_id: str, after: int) -> AsyncGenerator[Frame, None]:
        async with aclosing(self._watches.earlier(topic, visitor.caller.tenant, run_id, after)) as frames:
            async for frame in frames:
                yield frame
                self._check(visitor)

    def _checking(self, visitor: Visitor) -> Callable[[], None]:
        return lambda: self._check(visitor)


async def send_events(pieces: AsyncIterator[bytes], request: Request, send: Send) -> None:
    """Answers a request with a stream of events."""
    response = StreamingResponse(guarded(pieces), media_type="text/event-stream")
    await response(request.scope, request.receive, send)
