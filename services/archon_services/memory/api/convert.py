"""Converts between the messages of the API and the values of the domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.duration_pb2 import Duration

from archon.api.common.v1 import common_pb2
from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.api.memory.v1 import memory_pb2
from archon.wire import MAX_CHECKED_BYTES, policy_from_proto, policy_to_proto, timestamp
from archon_mesh.core.memory_item import PropagationPolicy
from archon_services.memory.domain.item_search import FoundItem
from archon_services.memory.domain.items import NewItem, Published, StoredItem
from archon_services.memory.domain.scope import Scope


def seconds(duration: Duration) -> float:
    """Returns the seconds of a duration, without checking its range."""
    return duration.seconds + duration.nanos / 1e9


def new_item(message: memory_pb2.PublishItem) -> NewItem:
    """Converts an item to publish."""
    return NewItem(
        role=message.role,
        content=message.content,
        metadata=dict(message.metadata),
        policy=PropagationPolicy(policy_from_proto(message.policy)),
        ttl=seconds(message.ttl) if message.HasField("ttl") else None,
        run_id=message.run_id,
        epoch=message.epoch,
        seq=message.seq,
        task_id=message.task_id,
    )


def published(results: Iterable[Published]) -> pb.PublishItemsResponse:
    """Builds the response of a publish."""
    return pb.PublishItemsResponse(
        published=[
            memory_pb2.Published(role=result.role, version=result.version, repeated_before=result.repeated_before)
            for result in results
        ]
    )


def stored_item(scope: str, stored: StoredItem) -> memory_pb2.MemoryItem:
    """Converts a stored item, with its origin."""
    item = stored.item
    message = memory_pb2.MemoryItem(
        source_role=item.source_id,
        content=item.content,
        publish_time=timestamp(item.timestamp),
        version=item.version,
        policy=policy_to_proto(item.policy),
        metadata={key: str(value) for key, value in item.metadata.items()},
        origin=common_pb2.MemoryRef(
            scope=scope, role=item.source_id, version=item.version, run_id=stored.run_id, seq=stored.seq
        ),
        task_id=item.task_id,
    )
    if item.ttl is not None:
        message.expire_time.CopyFrom(timestamp(item.timestamp + item.ttl))
    return message


def found_item(scope: str, found: FoundItem) -> memory_pb2.FoundItem:
    """Converts an item that a search found: its passage instead of its text."""
    item = stored_item(scope, found.stored)
    item.ClearField("content")
    return memory_pb2.FoundItem(item=item, passage=found.passage, score=found.score)


def watch_responses(scope: str, items: Sequence[StoredItem], *, snapshot: bool) -> Iterator[pb.WatchItemsResponse]:
    """Yields one message, or several if one would exceed the size limit; only the first is marked as the snapshot."""
    message = pb.WatchItemsResponse(snapshot=snapshot)
    size = 0
    for stored in items:
        added = stored_item(scope, stored)
        if message.items and size + added.ByteSize() > MAX_CHECKED_BYTES:
            yield message
            message, size = pb.WatchItemsResponse(), 0
        message.items.append(added)
        size += added.ByteSize() + 8
    yield message


def scope_graph(name: str, scope: Scope) -> memory_pb2.ScopeGraph:
    """Converts a scope: roles, edges and items."""
    role_graph, roles = scope.role_graph, scope.roles()
    rank = {role: index for index, role in enumerate(roles)}
    return memory_pb2.ScopeGraph(
        scope=name,
        roles=roles,
        edges=[
            common_pb2.Edge(
                upstream=edge.upstream,
                downstream=edge.downstream,
                policy=policy_to_proto(edge.policy),
                pinned=edge.pinned,
                declared_by=edge.declared_by,
            )
            for edge in sorted(role_graph.edges, key=lambda edge: (rank[edge.upstream], rank[edge.downstream]))
        ],
        items=[stored_item(name, stored) for stored in scope.items()],
        registry_revision=role_graph.revision,
    )
