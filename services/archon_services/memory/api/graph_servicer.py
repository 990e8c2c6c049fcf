"""MemoryGraphService: decodes requests, calls the store, encodes responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from threading import BoundedSemaphore
from typing import Any, Final, TypeVar

from archon import context
from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.channel import MAX_RECEIVE_BYTES
from archon.errors import ResourceExhausted
from archon.memory.long_term.entry import DEFAULT_LIMIT
from archon.registry import Graph
from archon.threads import on_thread
from archon_services.memory.api import convert
from archon_services.memory.api import graph_validation as validation
from archon_services.memory.domain.item_search import FoundItem, search_items
from archon_services.memory.domain.scope import Scope
from archon_services.memory.store.port import MemoryStore

MAX_RESPONSE_BYTES: Final = MAX_RECEIVE_BYTES - 64 * 1024
"""Slightly below the clients' receive limit, so that the error names the reason instead of gRPC's generic one."""

MAX_SEARCHES: Final = 4
"""Searches in progress, each on a thread."""

M = TypeVar("M", pb.PullItemsResponse, pb.GetGraphResponse)


class MemoryGraphServicer:
    """Implements MemoryGraphService over a store. `role_graph` returns the registry's current graph of a tenant's
    roles. The proto documents the errors of each call."""

    def __init__(self, store: MemoryStore, role_graph: Callable[[str], Graph]) -> None:
        self._store = store
        self._role_graph = role_graph
        self._searches = BoundedSemaphore(MAX_SEARCHES)

    async def PublishItems(self, request: pb.PublishItemsRequest, _: Any) -> pb.PublishItemsResponse:
        """Publishes all items or none."""
        return convert.published(await self._store.publish(validation.publish(request, _tenant())))

    async def PullItems(self, request: pb.PullItemsRequest, _: Any) -> pb.PullItemsResponse:
        """Returns the items that a role may read."""
        validation.pull(request)
        scope = await self._scope(request.scope)
        items = scope.pull(request.role, all_ancestors=request.all_ancestors)
        return _bounded(pb.PullItemsResponse(items=[convert.stored_item(request.scope, stored) for stored in items]))

    async def GetGraph(self, request: pb.GetGraphRequest, _: Any) -> pb.GetGraphResponse:
        """Returns the roles, edges and items of a scope."""
        scope = await self._scope(validation.scope(request.scope))
        return _bounded(pb.GetGraphResponse(graph=convert.scope_graph(request.scope, scope)))

    async def SearchItems(self, request: pb.SearchItemsRequest, _: Any) -> pb.SearchItemsResponse:
        """Returns the items that answer a query."""
        validation.search(request)
        scope = await self._scope(request.scope)
        items = scope.pull(request.role, all_ancestors=True) if request.role else scope.items()
        if not self._searches.acquire(blocking=False):
            raise ResourceExhausted("too many searches in progress", retry_delay=0.5)

        def search() -> list[FoundItem]:
            try:
                return search_items(items, request.query, request.limit or DEFAULT_LIMIT, request.threshold)
            finally:
                self._searches.release()  # here, because the caller may be gone

        found, error = await on_thread(search, "memory: search")
        if error is not None:
            raise error
        assert isinstance(found, list)
        return pb.SearchItemsResponse(items=[convert.found_item(request.scope, each) for each in found])

    async def WatchItems(self, request: pb.WatchItemsRequest, _: Any) -> AsyncIterator[pb.WatchItemsResponse]:
        """Streams the items of a scope."""
        validation.scope(request.scope)
        snapshot = True
        async with aclosing(self._store.watch(_tenant(), request.scope)) as batches:
            async for items in batches:
                for message in convert.watch_responses(request.scope, items, snapshot=snapshot):
                    yield message
                snapshot = False

    async def ClearItems(self, request: pb.ClearItemsRequest, _: Any) -> pb.ClearItemsResponse:
        """Deletes the items of a scope."""
        return pb.ClearItemsResponse(cleared=await self._store.clear(_tenant(), validation.scope(request.scope)))

    async def _scope(self, name: str) -> Scope:
        return Scope(self._role_graph(_tenant()), await self._store.items(_tenant(), name))


def _tenant() -> str:
    return context.current().tenant


def _bounded(response: M) -> M:
    size = response.ByteSize()
    if size > MAX_RESPONSE_BYTES:
        raise ResourceExhausted(
            f"response too large: the items have {size:,} bytes, at most {MAX_RESPONSE_BYTES:,}",
            reason="MESSAGE_TOO_LARGE",
            metadata={"size": str(size), "limit": str(MAX_RESPONSE_BYTES)},
        )
    return response
