"""Client of the shared memory graph: the methods of `archon_mesh.core.SharedMemoryGraph`, awaited."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from archon import errors
from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.api.memory.v1 import memory_graph_service_pb2_grpc, memory_pb2
from archon.channel import Option, connect
from archon.interceptors import translated
from archon.memory import convert
from archon.memory.item import FoundItem, MemoryChange, MemoryItem
from archon.memory.long_term.entry import check_limit, check_query, check_threshold
from archon.memory.publication import Published, PublishItem
from archon.memory.values import MAX_PUBLISH_BYTES
from archon.propagation import PropagationPolicy
from archon.registry import Edge, RegistryClient
from archon.registry.retry import backoff, is_transient
from archon.security.credentials import Credentials
from archon.security.peer import MEMORY
from archon.wire import policy_from_proto

CALL_TIMEOUT: Final = 10.0
"""Seconds that a call may take by default."""

_FINAL: Final = PropagationPolicy.FINAL_RESPONSE_ONLY
_Messages = AsyncGenerator[pb.WatchItemsResponse, None]


class MemoryGraphClient:
    """A connection to the memory service at `host:port` for one scope: the id of a session or of a run.

    It connects at the first call and may be shared by tasks of one event loop. Close it, or use it as an async context
    manager. Calls raise Unavailable and DeadlineExceeded if the service is unreachable, InvalidArgument with the
    invalid fields. The registry holds the edges: `registry` (host:port) is needed only for `add_edge`.
    """

    def __init__(
        self,
        target: str,
        scope: str = "",
        *,
        registry: str = "",
        options: Sequence[Option] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._scope = convert.text(scope, "scope")
        self._channel = connect(target, options, peer=MEMORY, credentials=credentials)
        self._stub = memory_graph_service_pb2_grpc.MemoryGraphServiceStub(self._channel)
        self._registry_target = registry
        self._registry: RegistryClient | None = None
        self._closed = False
        self._added: set[str] = set()
        """Roles of `add_agent`."""

    async def __aenter__(self) -> MemoryGraphClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        self._closed = True
        if self._registry is not None:
            await self._registry.close()
        await self._channel.close()

    async def publish(
        self,
        node_id: str,
        content: str,
        metadata: Mapping[str, str] | None = None,
        *,
        policy: PropagationPolicy = _FINAL,
        ttl: float | None = None,
        request_id: str = "",
        timeout: float = CALL_TIMEOUT,
    ) -> MemoryItem | None:
        """Replaces the role's item by one of the next version, and returns it; None if `content` is blank and nothing
        was published. `ttl` is in seconds; None means forever. With a `request_id` a repeated call publishes once;
        without one only the retries within this call do.

        The service sets the timestamp and merges the metadata of the earlier item: the returned item has the time of
        this process instead, and the given metadata.

        Raises MessageTooLarge for more than 4 MiB of text, RequestIdReused, ResourceExhausted.
        """
        item = PublishItem(node_id, content, metadata or {}, policy, ttl)
        done = await self.publish_items([item], request_id=request_id or uuid.uuid4().hex, timeout=timeout)
        if not done[0].version:
            return None
        return MemoryItem(
            source_id=node_id,
            content=content,
            timestamp=time.time(),
            version=done[0].version,
            policy=PropagationPolicy(policy),
            metadata=dict(metadata or {}),
            ttl=ttl,
        )

    async def publish_items(
        self,
        items: Iterable[PublishItem],
        request_id: str = "",
        *,
        scope: str | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> list[Published]:
        """Publishes items, all or none, into `scope` or the client's own; returns one answer per item. For publishers
        that make items idempotent by run_id, epoch and seq, or by a request id.

        Raises Aborted with the reason STALE_EPOCH if a later event of the run has been published for the role;
        MessageTooLarge, RequestIdReused, ResourceExhausted.
        """
        request = pb.PublishItemsRequest(
            scope=self._scope if scope is None else convert.text(scope, "scope"),
            items=[item.proto for item in items],
            request_id=convert.text(request_id, "request_id"),
        )
        size = request.ByteSize()
        if size > MAX_PUBLISH_BYTES:
            raise errors.MessageTooLarge(
                f"the items make a message of {size:,} bytes, more than the limit of {MAX_PUBLISH_BYTES:,}",
                metadata={"size": str(size), "limit": str(MAX_PUBLISH_BYTES)},
            )
        answer = await self._stub.PublishItems(request, timeout=timeout)
        return [Published.from_proto(published) for published in answer.published]

    async def pull_for(
        self, node_id: str, *, scope: str | None = None, timeout: float = CALL_TIMEOUT
    ) -> list[MemoryItem]:
        """The items of the role's direct predecessors in `scope` or the client's own, in dependency order, then by
        name; [] if the role is unknown."""
        return await self._pull(node_id, False, scope, timeout)

    async def pull_for_indirect(
        self, node_id: str, *, scope: str | None = None, timeout: float = CALL_TIMEOUT
    ) -> list[MemoryItem]:
        """The items of all ancestors in `scope` or the client's own, nearest first; [] if the role is unknown."""
        return await self._pull(node_id, True, scope, timeout)

    async def search(
        self,
        query_text: str,
        limit: int = 5,
        threshold: float = 0.0,
        *,
        node_id: str = "",
        scope: str | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> list[FoundItem]:
        """The items of `scope` or the client's own that answer a query, by meaning and by words, best first. With
        `node_id` only items of this role's ancestors are searched."""
        request = pb.SearchItemsRequest(
            scope=self._scope if scope is None else convert.text(scope, "scope"),
            query=check_query(query_text),
            limit=check_limit(limit),
            role=convert.text(node_id, "role"),
            threshold=check_threshold(threshold),
        )
        answer = await self._stub.SearchItems(request, timeout=timeout)
        return [FoundItem(convert.item_from_proto(found.item), found.passage, found.score) for found in answer.items]

    async def add_agent(self, node_id: str) -> None:
        """Adds a role to the graph as this client sees it; adding it again changes nothing. Other clients see it once
        it is registered, has an edge or has published. Raises InvalidArgument if the name is empty."""
        if not convert.text(node_id, "role"):
            raise errors.InvalidArgument("the name of a role is empty")
        self._added.add(node_id)

    async def add_edge(
        self, src: str, dst: str, policy: PropagationPolicy = _FINAL, *, timeout: float = CALL_TIMEOUT
    ) -> None:
        """Pins the edge in the registry, for all scopes; the memory service follows within moments. Raises GraphCycle
        if `src` depends on `dst`, FailedPrecondition if the client has no registry."""
        if self._registry is None:
            if not self._registry_target:
                raise errors.FailedPrecondition(
                    "the registry holds the edges: pass `registry` to this client to add one"
                )
            self._registry = RegistryClient(self._registry_target)
        await self._registry.pin_edges([Edge(src, dst, policy)], timeout=timeout)

    async def has_node(self, node_id: str) -> bool:
        """Whether the role is in the registry's graph, has an item in the scope, or was added to this client."""
        return node_id in (await self._graph()).roles

    async def get_edges_for_nodes(self, node_ids: Iterable[str]) -> list[tuple[str, str]]:
        """The edges (src, dst) between the given roles, in dependency order; unknown roles are ignored."""
        wanted = set(node_ids)
        graph = await self._graph()
        rank = {role: at for at, role in enumerate(graph.roles)}
        edges = {(edge.upstream, edge.downstream) for edge in graph.edges if {edge.upstream, edge.downstream} <= wanted}
        return sorted(edges, key=lambda edge: (rank[edge[0]], rank[edge[1]]))

    async def policies_from(self, node_id: str) -> set[PropagationPolicy]:
        """The policies of the edges to the role's direct successors; an empty set if the role is unknown."""
        edges = (await self._graph()).edges
        return {policy_from_proto(edge.policy) for edge in edges if edge.upstream == node_id}

    async def get_topological_order(self, node_ids: Iterable[str] | None = None) -> list[str]:
        """All roles, or the given ones, each after its dependencies; unknown roles are left out."""
        roles = (await self._graph()).roles
        wanted = set(roles if node_ids is None else node_ids)
        return [role for role in roles if role in wanted]

    async def to_dict(self) -> dict[str, Any]:
        """The graph and its live items as plain JSON types, in the shape of `SharedMemoryGraph.to_dict`; `versions` has
        the live items only."""
        return convert.graph_to_dict(await self._graph())

    async def clear_published_data(self, *, timeout: float = CALL_TIMEOUT) -> int:
        """Deletes all items of the scope and returns how many there were; their versions continue."""
        answer = await self._stub.ClearItems(pb.ClearItemsRequest(scope=self._scope), timeout=timeout)
        return answer.cleared

    async def watch(self) -> AsyncGenerator[MemoryChange, None]:
        """Watches the scope: yields a snapshot, which may be empty, then each published item.

        It does not end by itself: after any outage, or if it was too slow, it reconnects and yields a new snapshot.
        Deletions and expiries are not reported. Raises InvalidArgument and other errors that are not transient. Close
        the iterator (contextlib.aclosing) or cancel its task.
        """
        attempt = 0
        while True:
            failure: errors.ArchonError | None = None
            call = self._stub.WatchItems(pb.WatchItemsRequest(scope=self._scope))
            try:
                async with aclosing(cast(_Messages, translated(call))) as messages:
                    async for message in messages:
                        attempt = 0
                        yield convert.change_from_proto(message)
            except errors.ArchonError as error:
                if self._closed or not is_transient(error):
                    raise
                failure = error
            await asyncio.sleep(backoff(attempt, failure, longest=1.0))
            attempt += 1

    async def _pull(self, node_id: str, all_ancestors: bool, scope: str | None, timeout: float) -> list[MemoryItem]:
        request = pb.PullItemsRequest(
            scope=self._scope if scope is None else convert.text(scope, "scope"),
            role=convert.text(node_id, "role"),
            all_ancestors=all_ancestors,
        )
        answer = await self._stub.PullItems(request, timeout=timeout)
        return [convert.item_from_proto(item) for item in answer.items]

    async def _graph(self) -> memory_pb2.ScopeGraph:
        answer = await self._stub.GetGraph(pb.GetGraphRequest(scope=self._scope), timeout=CALL_TIMEOUT)
        graph = answer.graph
        if added := self._added.difference(graph.roles):
            graph.roles[:] = convert.with_roles(graph.roles, added)
        return graph
