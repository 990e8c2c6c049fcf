"""The RPC `WatchRun` for browsers: all viewers of a run share one watch of the orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import DeadlineExceeded, ResourceExhausted
from archon_services.gateway.connect.errors import Context, failed
from archon_services.gateway.events.run_events import RunEvents
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches.runs import WATCH_RUN
from archon_services.gateway.watches.topic import Fallen


class WatchRun:
    """Streams the events of a run, as the orchestrator's RPC does."""

    def __init__(self, gateway: Gateway) -> None:
        self._visitors = gateway.visitors
        self._events = RunEvents(gateway, gateway.visitors.check)

    async def __call__(self, request: pb.WatchRunRequest, context: Context) -> AsyncIterator[pb.WatchRunResponse]:
        last = request.after_seq
        try:
            async with aclosing(self._responses(request, context)) as responses:
                async for response in responses:
                    last = max(last, *(event.seq for event in response.events), 0)
                    yield response
        except Fallen:
            slow = ResourceExhausted(f"the viewer is slower than the run: watch again after {last}", retry_delay=1.0)
            raise failed(slow, context) from None
        except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            raise failed(raised, context) from None

    async def _responses(
        self, request: pb.WatchRunRequest, context: Context
    ) -> AsyncGenerator[pb.WatchRunResponse, None]:
        visitor = self._visitors.of(context.request_headers, WATCH_RUN)
        asked = context.timeout_ms
        loop = asyncio.get_running_loop()
        until = None if asked is None else loop.time() + asked / 1000
        async with aclosing(self._events.batches(visitor, request.run_id, request.after_seq)) as batches:
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        batch = await anext(batches, None)
                except TimeoutError:
                    raise DeadlineExceeded("the watch has ended with the timeout of its caller") from None
                if batch is None:
                    return
                events = [each.message for each in batch if each.number or not request.durable_only]
                if events or not batch:
                    yield pb.WatchRunResponse(events=events)
