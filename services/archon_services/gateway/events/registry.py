"""The changes of the registry, and its present state for viewers that come later."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final, cast

from archon.api.registry.v1 import registry_pb2, registry_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.context import CallContext, serving
from archon.interceptors.client import translated
from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.topic import Fallen, Topic

SERVICE: Final = "archon.api.registry.v1.RegistryService"
WATCH: Final = f"/{SERVICE}/Watch"


class RegistryTopic(Topic):
    """The registry as one tenant sees it: changes, and the instances and the graph that they add up to."""

    def __init__(self, gateway: Gateway, tenant: str, budget: ByteBudget) -> None:
        super().__init__(f"registry of {tenant}", self._watch, budget)
        make: Callable[[Any], Any] = registry_service_pb2_grpc.RegistryServiceStub
        self._stub = make(gateway.upstream.own(SERVICE))
        self._tenant = tenant
        self._instances: dict[str, registry_pb2.Registration] = {}
        self._graph: registry_pb2.Graph | None = None
        self.known = False
        """Whether a first snapshot has come."""

    def opening(self, after: int) -> tuple[Frame | None, int]:
        """Returns the frame with which a viewer begins, and the position of the next one: the present state, unless it
        has everything up to the revision `after`, and all changes since are kept."""
        if after and after <= self.last:
            try:
                return None, self.position_after(after)
            except Fallen:
                pass
        snapshot = pb.WatchResponse(revision=self.last, snapshot=True, instances=self._instances.values())
        if self._graph is not None:
            snapshot.graph.CopyFrom(self._graph)
        return Frame(self.last, snapshot), self.end_position

    async def _watch(self, after: int) -> AsyncIterator[Frame]:
        with serving(CallContext(tenant=self._tenant)):
            call = self._stub.Watch(pb.WatchRequest(from_revision=after))
        whole = pb.WatchResponse()
        async with aclosing(cast(AsyncGenerator[pb.WatchResponse, None], translated(call))) as parts:
            async for part in parts:
                whole.MergeFrom(part)
                if not part.revision:
                    continue  # a large change comes in several messages
                self._fold(whole)
                yield Frame(whole.revision, whole)
                whole = pb.WatchResponse()

    def _fold(self, change: pb.WatchResponse) -> None:
        if change.snapshot:
            self._instances.clear()
        for instance in change.instances:
            self._instances[instance.instance_id] = instance
        for instance_id in change.removed_instance_ids:
            self._instances.pop(instance_id, None)
        if change.HasField("graph"):
            self._graph = change.graph
        self.known = True
