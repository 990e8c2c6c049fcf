"""The registry's state at one revision, and the difference between two. Plain values, no I/O.

Keys are those of etcd below the prefix, in every store:

    instances/{instance_id}                         a Registration
    edges/{upstream}/{downstream}/{instance_id}     an accepted Edge that this instance declares
    pins/{upstream}/{downstream}                    an Edge that an operator pinned
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon_services.registry.domain.roles import Role, summarize_roles

Update = Mapping[str, Registration | Edge | None]
"""New values by key; None deletes the key. A key that ends in `/` deletes all keys below it."""


def instance_key(instance_id: str) -> str:
    """Returns the key of an instance."""
    return f"instances/{instance_id}"


def edge_key(upstream: str, downstream: str, instance_id: str) -> str:
    """Returns the key of an edge that an instance declares; without instance_id, the prefix of all declarations."""
    return f"edges/{upstream}/{downstream}/{instance_id}"


def pin_key(upstream: str, downstream: str) -> str:
    """Returns the key of a pinned edge."""
    return f"pins/{upstream}/{downstream}"


@dataclass(frozen=True, slots=True)
class State:
    """All records at one revision. The messages are shared between states and must not be changed. `roles` is derived
    from `instances`, and computed if it is absent."""

    revision: int = 0
    instances: Mapping[str, Registration] = field(default_factory=dict)
    edges: Mapping[str, Edge] = field(default_factory=dict)
    pins: Mapping[str, Edge] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Computes the roles if there are none."""
        if not self.roles and self.instances:
            object.__setattr__(self, "roles", summarize_roles(self.instances.values()))

    def with_update(self, update: Update, revision: int = 0) -> State:
        """Returns the state after `update`. Registrations in the update get `revision`."""
        instances, edges, pins = dict(self.instances), dict(self.edges), dict(self.pins)
        added: list[Registration] = []
        has_replaced = False
        for key, value in update.items():
            if key.endswith("/"):
                for below in [name for name in edges if name.startswith(key)]:
                    del edges[below]
            elif key.startswith("instances/"):
                instance_id = key.removeprefix("instances/")
                has_replaced = has_replaced or instance_id in instances
                if isinstance(value, Registration):
                    copy = Registration()
                    copy.CopyFrom(value)
                    copy.revision = revision
                    instances[instance_id] = copy
                    added.append(copy)
                else:
                    instances.pop(instance_id, None)
            else:
                table = pins if key.startswith("pins/") else edges
                if isinstance(value, Edge):
                    table[key] = value
                else:
                    table.pop(key, None)
        roles = summarize_roles(instances.values()) if has_replaced else summarize_roles(added, self.roles)
        return State(revision or self.revision, instances, edges, pins, roles)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields every edge, pinned or declared, as (upstream, downstream), with repetitions."""
        for table in (self.pins, self.edges):
            for edge in table.values():
                yield edge.upstream, edge.downstream


@dataclass(frozen=True, slots=True)
class Change:
    """One message to a watcher: a snapshot, or all that one revision changed."""

    revision: int
    snapshot: bool
    instances: tuple[Registration, ...] = ()
    removed: tuple[str, ...] = ()
    graph: Graph | None = None


def difference(old: State, new: State) -> tuple[tuple[Registration, ...], tuple[str, ...]]:
    """Returns the new and changed instances, and the ids of those removed."""
    changed = tuple(
        registration
        for name, registration in new.instances.items()
        if (previous := old.instances.get(name)) is not registration and previous != registration
    )
    return changed, tuple(name for name in old.instances if name not in new.instances)
