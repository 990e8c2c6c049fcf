"""The events of runs, from the orchestrator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final, cast

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.context import CallContext, serving
from archon.interceptors.client import translated
from archon_services.gateway.events.frames import Frame, frame_of
from archon_services.gateway.room import Gateway

SERVICE: Final = "archon.api.orchestrator.v1.OrchestratorService"
WATCH_RUN: Final = f"/{SERVICE}/WatchRun"


class RunWatches:
    """Watches runs over the gateway's own channel, in the tenant of the viewers, whose rights are checked before."""

    def __init__(self, gateway: Gateway) -> None:
        make: Callable[[Any], Any] = orchestrator_service_pb2_grpc.OrchestratorServiceStub
        self._stub = make(gateway.upstream.own(SERVICE))

    async def frames(self, tenant: str, run_id: str, after: int, *, durable_only: bool = False) -> AsyncIterator[Frame]:
        """Yields the events of a run after a number: durable ones each once and in order, others as they come."""
        request = pb.WatchRunRequest(run_id=run_id, after_seq=after, durable_only=durable_only)
        with serving(CallContext(tenant=tenant)):
            call = self._stub.WatchRun(request)
        async with aclosing(cast(AsyncGenerator[pb.WatchRunResponse, None], translated(call))) as messages:
            async for message in messages:
                for event in message.events:
                    yield frame_of(event.seq, event)
