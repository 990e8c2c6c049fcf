"""Conversion of items to and from protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from archon.api.memory.v1 import memory_graph_service_pb2, memory_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon.memory.item import MemoryChange, MemoryItem
from archon.wire import policy_from_proto, to_seconds


def text(value: str, field: str) -> str:
    """Returns the text. Raises InvalidArgument if it is not a string or not valid UTF-8."""
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InvalidArgument(
            f"{field} cannot be encoded: {error}", field_violations=[FieldViolation(field, "not a text")]
        ) from None
    return value


def item_from_proto(message: memory_pb2.MemoryItem) -> MemoryItem:
    published = to_seconds(message.publish_time)
    ttl = round(to_seconds(message.expire_time) - published, 6) if message.HasField("expire_time") else None
    return MemoryItem(
        source_id=message.source_role,
        content=message.content,
        timestamp=published,
        version=message.version,
        policy=policy_from_proto(message.policy),
        metadata=dict(message.metadata),
        ttl=ttl,
        run_id=message.origin.run_id,
        seq=message.origin.seq,
        task_id=message.task_id,
    )


def change_from_proto(message: memory_graph_service_pb2.WatchItemsResponse) -> MemoryChange:
    return MemoryChange(tuple(item_from_proto(item) for item in message.items), message.snapshot)


def with_roles(order: Sequence[str], added: Iterable[str]) -> list[str]:
    """Returns a topological order, sorted by name as far as edges permit, with further roles that have no edges."""
    roles = list(order)
    for role in sorted(added):
        roles.insert(next((at for at, other in enumerate(roles) if other > role), len(roles)), role)
    return roles


def graph_to_dict(graph: memory_pb2.ScopeGraph) -> dict[str, Any]:
    """The graph as plain JSON types, in the shape of `SharedMemoryGraph.to_dict`."""
    items = [item_from_proto(item) for item in graph.items]
    return {
        "nodes": list(graph.roles),
        "edges": [
            {"src": edge.upstream, "dst": edge.downstream, "policy": policy_from_proto(edge.policy).value}
            for edge in graph.edges
        ],
        "items": [
            {
                "source_id": item.source_id,
                "content": item.content,
                "timestamp": item.timestamp,
                "version": item.version,
                "policy": item.policy.value,
                "metadata": dict(item.metadata),
                "ttl": item.ttl,
            }
            for item in items
        ],
        "versions": {item.source_id: item.version for item in sorted(items, key=lambda item: item.source_id)},
    }
