"""The wire: decode, ask the store, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from google.protobuf.duration_pb2 import Duration

from archon import context
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon_services.registry.api import validation
from archon_services.registry.domain import edges, queries
from archon_services.registry.domain.state import Change
from archon_services.registry.store.port import RegistryStore


class RegistryServicer:
    """RegistryService over a store. What each call fails with stands in the contract."""

    def __init__(self, store: RegistryStore) -> None:
        self._store = store

    async def RegisterInstance(self, request: pb.RegisterInstanceRequest, _: Any) -> pb.RegisterInstanceResponse:
        """Registers or renews."""
        call = context.current()
        wanted = validation.registration(request.registration, tenant=call.tenant, identity=call.identity)
        done = await self._store.register(wanted)
        return pb.RegisterInstanceResponse(
            registration=done.registration, refused_edges=done.refused, ttl=Duration(seconds=done.ttl)
        )

    async def KeepAlive(
        self, requests: AsyncIterator[pb.KeepAliveRequest], _: Any
    ) -> AsyncIterator[pb.KeepAliveResponse]:
        """Renews leases, one answer per message."""
        async for request in requests:
            names = validation.instance_ids(request.instance_ids)
            left = await self._store.keep_alive(names)
            yield pb.KeepAliveResponse(leases=[_status(name, ttl) for name, ttl in zip(names, left, strict=True)])

    async def DeregisterInstance(self, request: pb.DeregisterInstanceRequest, _: Any) -> pb.DeregisterInstanceResponse:
        """Ends a registration."""
        await self._store.deregister(validation.instance_id(request.instance_id))
        return pb.DeregisterInstanceResponse()

    async def ResolveInstances(self, request: pb.ResolveInstancesRequest, _: Any) -> pb.ResolveInstancesResponse:
        """Who can take a task."""
        validation.resolve(request)
        state = await self._store.read()
        found = queries.resolve(
            state, role=request.role, capability=request.capability, version=request.version, tags=request.tags
        )
        return pb.ResolveInstancesResponse(instances=found, revision=state.revision)

    async def ListInstances(self, request: pb.ListInstancesRequest, _: Any) -> pb.ListInstancesResponse:
        """A page of instances."""
        size = validation.page_size(request)
        state = await self._store.read()
        found, token = queries.page(state, role=request.role, size=size, token=request.page_token)
        return pb.ListInstancesResponse(instances=found, next_page_token=token, revision=state.revision)

    async def PinEdges(self, request: pb.PinEdgesRequest, _: Any) -> pb.PinEdgesResponse:
        """Pins all or none."""
        return pb.PinEdgesResponse(graph=await self._store.pin(validation.edges(request.edges)))

    async def UnpinEdges(self, request: pb.UnpinEdgesRequest, _: Any) -> pb.UnpinEdgesResponse:
        """Unpins."""
        return pb.UnpinEdgesResponse(graph=await self._store.unpin(validation.edges(request.edges)))

    async def GetGraph(self, request: pb.GetGraphRequest, _: Any) -> pb.GetGraphResponse:
        """The graph as it stands."""
        return pb.GetGraphResponse(graph=edges.graph(await self._store.read()))

    async def Watch(self, request: pb.WatchRequest, _: Any) -> AsyncIterator[pb.WatchResponse]:
        """Follows instances and edges."""
        everything = not request.kinds or pb.WATCH_KIND_UNSPECIFIED in request.kinds
        instances = everything or pb.WATCH_KIND_INSTANCES in request.kinds
        graph = everything or pb.WATCH_KIND_EDGES in request.kinds
        async with aclosing(self._store.watch(request.from_revision)) as changes:
            async for change in changes:
                if answer := _news(change, instances, graph):
                    yield answer


def _status(instance_id: str, ttl: int) -> pb.LeaseStatus:
    if not ttl:
        return pb.LeaseStatus(instance_id=instance_id, expired=True)
    return pb.LeaseStatus(instance_id=instance_id, ttl=Duration(seconds=ttl))


def _news(change: Change, instances: bool, graph: bool) -> pb.WatchResponse | None:
    """What of a change is told to who follows these kinds; None: nothing."""
    answer = pb.WatchResponse(revision=change.revision, snapshot=change.snapshot)
    if instances:
        answer.instances.extend(change.instances)
        answer.removed_instance_ids.extend(change.removed)
    if graph and change.graph is not None:
        answer.graph.CopyFrom(change.graph)
    told = change.snapshot or answer.instances or answer.removed_instance_ids or answer.HasField("graph")
    return answer if told else None
