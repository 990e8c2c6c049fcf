"""The events of runs, from the orchestrator: one watch for each run and tenant."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import cached_property
from typing import Any, Final, cast

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.context import CallContext, serving
from archon.interceptors.client import translated
from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.upstream import Upstream
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.hub import Hub
from archon_services.gateway.watches.topic import Topic

SERVICE: Final = "archon.api.orchestrator.v1.OrchestratorService"
WATCH_RUN: Final = f"/{SERVICE}/WatchRun"


class RunWatches:
    """Watches runs over the gateway's own channel, in the tenant of the viewers, whose rights are checked before."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._hub = Hub[Topic](self._topic)

    def viewing(self, tenant: str, run_id: str) -> AbstractAsyncContextManager[Topic]:
        """The events of a run for the duration of the block. Raises ResourceExhausted if too many runs are watched."""
        return self._hub.viewing((tenant, run_id))

    async def frames(
        self, tenant: str, run_id: str, after: int, *, durable_only: bool = False
    ) -> AsyncGenerator[Frame | None, None]:
        """Yields the events of a run after a number, by a watch of its own: durable ones each once and in order, others
        as they come; None if nothing happens for a while."""
        request = pb.WatchRunRequest(run_id=run_id, after_seq=after, durable_only=durable_only)
        with serving(CallContext(tenant=tenant)):
            call = self._stub.WatchRun(request)
        async with aclosing(cast(AsyncGenerator[pb.WatchRunResponse, None], translated(call))) as messages:
            async for message in messages:
                for event in message.events:
                    yield Frame(event.seq, event)
                if not message.events:
                    yield None

    async def earlier(self, topic: Topic, tenant: str, run_id: str, after: int) -> AsyncGenerator[Frame, None]:
        """Yields the durable events after a number that the topic of a run keeps no more, by a watch of its own."""
        while not (topic.has_after(after) or topic.stopped):
            async with aclosing(self.frames(tenant, run_id, after, durable_only=True)) as frames:
                async for frame in frames:
                    if frame is None:
                        continue
                    after = frame.number
                    yield frame
                    if topic.has_after(after) or topic.stopped:
                        break

    def end(self) -> None:
        """Ends the streams of all viewers, who connect again elsewhere."""
        self._hub.end()

    async def close(self) -> None:
        """Ends all watches."""
        await self._hub.close()

    @cached_property
    def _stub(self) -> Any:
        make: Callable[[Any], Any] = orchestrator_service_pb2_grpc.OrchestratorServiceStub
        return make(self._upstream.own(SERVICE))

    def _topic(self, key: Any, budget: ByteBudget) -> Topic:
        tenant, run_id = key
        return Topic(f"events of {run_id}", lambda after: self.frames(tenant, run_id, after), budget)
