"""The wire: decode, ask the store, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, TypeVar

from archon import context
from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.channel import MAX_RECEIVE_BYTES
from archon.errors import ResourceExhausted
from archon_services.memory.api import convert
from archon_services.memory.api import graph_validation as validation
from archon_services.memory.domain.scope import Scope
from archon_services.memory.domain.structure import Structure
from archon_services.memory.store.port import MemoryStore

MAX_ANSWER_BYTES: Final = MAX_RECEIVE_BYTES - 64 * 1024
"""A little below what a member takes: above that gRPC would only say so, not why."""

M = TypeVar("M", pb.PullItemsResponse, pb.GetGraphResponse)


class MemoryGraphServicer:
    """MemoryGraphService over a store and a structure. What each call fails with stands in the contract."""

    def __init__(self, store: MemoryStore, structure: Structure) -> None:
        self._store = store
        self._structure = structure

    async def PublishItems(self, request: pb.PublishItemsRequest, _: Any) -> pb.PublishItemsResponse:
        """Publishes all or none."""
        return convert.published(await self._store.publish(validation.publish(request, _tenant())))

    async def PullItems(self, request: pb.PullItemsRequest, _: Any) -> pb.PullItemsResponse:
        """What a role may see."""
        validation.pull(request)
        scope = await self._scope(request.scope)
        found = scope.pull(request.role, all_ancestors=request.all_ancestors)
        return _bounded(pb.PullItemsResponse(items=[convert.item(request.scope, one) for one in found]))

    async def GetGraph(self, request: pb.GetGraphRequest, _: Any) -> pb.GetGraphResponse:
        """The whole of a scope."""
        scope = await self._scope(validation.scope(request.scope))
        return _bounded(pb.GetGraphResponse(graph=convert.scope_graph(request.scope, scope)))

    async def WatchItems(self, request: pb.WatchItemsRequest, _: Any) -> AsyncIterator[pb.WatchItemsResponse]:
        """Follows a scope."""
        validation.scope(request.scope)
        snapshot = True
        async with aclosing(self._store.watch(_tenant(), request.scope)) as news:
            async for stored in news:
                for message in convert.watched(request.scope, stored, snapshot=snapshot):
                    yield message
                snapshot = False

    async def ClearItems(self, request: pb.ClearItemsRequest, _: Any) -> pb.ClearItemsResponse:
        """Forgets a scope's items."""
        return pb.ClearItemsResponse(cleared=await self._store.clear(_tenant(), validation.scope(request.scope)))

    async def _scope(self, name: str) -> Scope:
        return Scope(self._structure.graph, await self._store.items(_tenant(), name))


def _tenant() -> str:
    return context.current().tenant


def _bounded(answer: M) -> M:
    size = answer.ByteSize()
    if size > MAX_ANSWER_BYTES:
        raise ResourceExhausted(
            f"the items make an answer of {size:,} bytes, at most {MAX_ANSWER_BYTES:,} can be taken",
            reason="MESSAGE_TOO_LARGE",
            metadata={"size": str(size), "limit": str(MAX_ANSWER_BYTES)},
        )
    return answer
