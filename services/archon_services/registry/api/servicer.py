"""RegistryService: decodes requests, calls the store, encodes responses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.context import current
from archon.principal import Kind
from archon.security.keys import KeyFile
from archon.security.policy import check_all_tenants, check_role
from archon.wire import duration
from archon_services.common.tenants import role_key
from archon_services.registry.api import validation
from archon_services.registry.api.client_host import client_host
from archon_services.registry.api.watched_tenants import WatchedTenants
from archon_services.registry.audit import RegistryAudit
from archon_services.registry.domain import queries
from archon_services.registry.domain.edges import build_graph
from archon_services.registry.domain.registration_tokens import issue, owner_of
from archon_services.registry.store.port import RegistryStore

_log = logging.getLogger(__name__)


class RegistryServicer:
    """Implements RegistryService over a store. The proto documents the errors of each call."""

    def __init__(
        self, store: RegistryStore, audit: RegistryAudit, *, loopback: bool = True, keys: KeyFile | None = None
    ) -> None:
        """`loopback`: whether registrations may have addresses that only this machine can dial. `keys` are sent to
        agents that register, which verify their callers by them."""
        self._keys = keys
        self._store = store
        self._audit = audit
        self._loopback = loopback

    async def RegisterInstance(self, request: pb.RegisterInstanceRequest, context: Any) -> pb.RegisterInstanceResponse:
        """Registers an instance or renews its registration."""
        call = current()
        check_role(call.principal, request.registration.role)
        wanted = validation.registration(
            request.registration,
            tenant=call.tenant,
            identity=call.identity,
            loopback=self._loopback,
            attached=call.principal is None or call.principal.kind is Kind.SERVICE,
        )
        issued, owner = ("", owner_of(validation.token(request.token))) if request.token else issue()
        wanted.owner = owner
        registered = await self._store.register(wanted, client_host(context.peer()))
        return pb.RegisterInstanceResponse(
            registration=registered.registration,
            refused_edges=map(queries.named_refusal, registered.refused),
            ttl=duration(registered.ttl),
            token=issued if registered.registration.owner == owner else "",
            keys_json=self._keys.text() if self._keys is not None else "",
        )

    async def KeepAlive(
        self, requests: AsyncIterator[pb.KeepAliveRequest], _: Any
    ) -> AsyncIterator[pb.KeepAliveResponse]:
        """Renews leases; one response per request message."""
        async for request in requests:
            instance_ids = validation.instance_ids(request.instance_ids)
            validation.tokens(request.tokens, instance_ids)
            owners = [owner_of(token) for token in request.tokens]
            ttls = await self._store.keep_alive(instance_ids, owners, tenant=current().tenant)
            leases = [_lease_status(name, ttl) for name, ttl in zip(instance_ids, ttls, strict=True)]
            yield pb.KeepAliveResponse(leases=leases)

    async def DeregisterInstance(self, request: pb.DeregisterInstanceRequest, _: Any) -> pb.DeregisterInstanceResponse:
        """Removes a registration."""
        instance_id = validation.instance_id(request.instance_id)
        await self._store.deregister(instance_id, owner_of(request.token), tenant=current().tenant)
        return pb.DeregisterInstanceResponse()

    async def ResolveInstances(self, request: pb.ResolveInstancesRequest, _: Any) -> pb.ResolveInstancesResponse:
        """Returns the instances that can take a task."""
        validation.resolve(request)
        state = await self._store.read()
        instances = queries.resolve(
            state,
            current().tenant,
            role=request.role,
            capability=request.capability,
            version=request.version,
            tags=request.tags,
        )
        return pb.ResolveInstancesResponse(instances=instances, revision=state.revision)

    async def ListInstances(self, request: pb.ListInstancesRequest, _: Any) -> pb.ListInstancesResponse:
        """Returns a page of instances."""
        size = validation.page_size(request)
        state = await self._store.read()
        instances, token = queries.list_page(
            state, current().tenant, role=request.role, size=size, token=request.page_token
        )
        response = pb.ListInstancesResponse(instances=instances, next_page_token=token, revision=state.revision)
        if request.leases:
            names = [instance.instance_id for instance in instances]
            left = await self._store.leases(names)
            response.leases.extend(_lease_status(name, seconds) for name, seconds in zip(names, left, strict=True))
        return response

    async def PinEdges(self, request: pb.PinEdgesRequest, _: Any) -> pb.PinEdgesResponse:
        """Pins all edges or none."""
        edges = validation.edges(request.edges)
        await self._audit.add("edges.pin", _pairs(edges), {"edges": len(edges)})
        graph = await self._store.pin(_keyed(edges))
        _log_pins("pinned", edges)
        return pb.PinEdgesResponse(graph=queries.graph_of(graph, current().tenant))

    async def UnpinEdges(self, request: pb.UnpinEdgesRequest, _: Any) -> pb.UnpinEdgesResponse:
        """Removes the pins of these edges; an edge without a pin is left as it is."""
        edges = validation.edges(request.edges)
        await self._audit.add("edges.unpin", _pairs(edges), {"edges": len(edges)})
        graph = await self._store.unpin(_keyed(edges))
        _log_pins("unpinned", edges)
        return pb.UnpinEdgesResponse(graph=queries.graph_of(graph, current().tenant))

    async def GetGraph(self, request: pb.GetGraphRequest, _: Any) -> pb.GetGraphResponse:
        """Returns the current dependency graph."""
        graph = build_graph(await self._store.read())
        return pb.GetGraphResponse(graph=queries.graph_of(graph, current().tenant))

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.WatchResponse]:
        """Streams changes of instances and edges."""
        call = current()
        if request.all_tenants:
            check_all_tenants(call.principal)
        await context.send_initial_metadata(())  # the watch is open, though there may be no change for a long time
        all_kinds = not request.kinds or pb.WATCH_KIND_UNSPECIFIED in request.kinds
        instances = all_kinds or pb.WATCH_KIND_INSTANCES in request.kinds
        graph = all_kinds or pb.WATCH_KIND_EDGES in request.kinds
        watched = WatchedTenants(None if request.all_tenants else call.tenant, instances=instances, edges=graph)
        async with aclosing(self._store.watch(request.from_revision)) as changes:
            async for change in changes:
                for response in watched.responses(change):
                    yield response


def _keyed(edges: Sequence[Edge]) -> list[Edge]:
    """Returns edges with the keys of the roles of the caller's tenant in place of their names."""
    tenant = current().tenant
    return [
        Edge(upstream=role_key(tenant, edge.upstream), downstream=role_key(tenant, edge.downstream), policy=edge.policy)
        for edge in edges
    ]


def _log_pins(done: str, edges: Sequence[Edge]) -> None:
    """Logs an operator's change of the graph: who made it, and which edges."""
    _log.warning("%s %s the edges %s", current().identity, done, _pairs(edges))


def _pairs(edges: Sequence[Edge]) -> str:
    return ", ".join(f"{edge.upstream} -> {edge.downstream}" for edge in edges)


def _lease_status(instance_id: str, ttl: float) -> pb.LeaseStatus:
    if not ttl:
        return pb.LeaseStatus(instance_id=instance_id, expired=True)
    return pb.LeaseStatus(instance_id=instance_id, ttl=duration(ttl))
