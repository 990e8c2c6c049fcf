"""Between the contract's messages and the store's values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.common.v1 import common_pb2
from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.api.memory.v1 import memory_pb2
from archon.wire import MAX_CHECKED_BYTES, policy_from_proto, policy_to_proto
from archon_mesh.core.memory_item import PropagationPolicy
from archon_services.memory.domain.scope import Scope
from archon_services.memory.store.port import NewItem, Published, StoredItem


def seconds(duration: Duration) -> float:
    """Of a duration as sent, in its range or not."""
    return duration.seconds + duration.nanos / 1e9


def new_item(message: memory_pb2.PublishItem) -> NewItem:
    """All of it."""
    return NewItem(
        role=message.role,
        content=message.content,
        metadata=dict(message.metadata),
        policy=PropagationPolicy(policy_from_proto(message.policy)),
        ttl=seconds(message.ttl) if message.HasField("ttl") else None,
        run_id=message.run_id,
        epoch=message.epoch,
        seq=message.seq,
    )


def published(done: Iterable[Published]) -> pb.PublishItemsResponse:
    """One per item."""
    return pb.PublishItemsResponse(
        published=[
            memory_pb2.Published(role=one.role, version=one.version, repeated_before=one.repeated_before)
            for one in done
        ]
    )


def item(scope: str, stored: StoredItem) -> memory_pb2.MemoryItem:
    """With where it comes from."""
    one = stored.item
    message = memory_pb2.MemoryItem(
        source_role=one.source_id,
        content=one.content,
        publish_time=_timestamp(one.timestamp),
        version=one.version,
        policy=policy_to_proto(one.policy),
        metadata={key: str(value) for key, value in one.metadata.items()},
        origin=common_pb2.MemoryRef(
            scope=scope, role=one.source_id, version=one.version, run_id=stored.run_id, seq=stored.seq
        ),
    )
    if one.ttl is not None:
        message.expire_time.CopyFrom(_timestamp(one.timestamp + one.ttl))
    return message


def watched(scope: str, stored: Sequence[StoredItem], *, snapshot: bool) -> Iterator[pb.WatchItemsResponse]:
    """At least one message; several where one would be too large for a peer, only the first of them the snapshot."""
    message = pb.WatchItemsResponse(snapshot=snapshot)
    size = 0
    for one in stored:
        added = item(scope, one)
        if message.items and size + added.ByteSize() > MAX_CHECKED_BYTES:
            yield message
            message, size = pb.WatchItemsResponse(), 0
        message.items.append(added)
        size += added.ByteSize() + 8
    yield message


def scope_graph(name: str, scope: Scope) -> memory_pb2.ScopeGraph:
    """The whole of a scope."""
    structure, roles = scope.structure, scope.roles()
    rank = {role: at for at, role in enumerate(roles)}
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
            for edge in sorted(structure.edges, key=lambda edge: (rank[edge.upstream], rank[edge.downstream]))
        ],
        items=[item(name, one) for one in scope.items()],
        registry_revision=structure.revision,
    )


def _timestamp(at: float) -> Timestamp:
    found = Timestamp()
    found.FromMicroseconds(round(at * 1e6))
    return found
