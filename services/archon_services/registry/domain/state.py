"""What the registry knows at one revision, and what changed from one to the next. Plain values, no I/O.

Keys are those of etcd below the prefix, in every store:

    instances/{instance_id}                         a Registration
    edges/{upstream}/{downstream}/{instance_id}     an Edge that this instance declares and that was accepted
    pins/{upstream}/{downstream}                    an Edge that an operator pinned
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration

Update = Mapping[str, Registration | Edge | None]
"""Key to new value; None: gone. A key that ends in `/` stands for all below it, and is always gone."""


def instance_key(instance_id: str) -> str:
    """Where an instance is kept."""
    return f"instances/{instance_id}"


def edge_key(upstream: str, downstream: str, instance_id: str) -> str:
    """Where an instance's edge is kept; without instance_id it names all instances' declarations of this edge."""
    return f"edges/{upstream}/{downstream}/{instance_id}"


def pin_key(upstream: str, downstream: str) -> str:
    """Where a pin is kept."""
    return f"pins/{upstream}/{downstream}"


@dataclass(frozen=True, slots=True)
class State:
    """All of it at one revision. The messages within are shared: nobody changes them."""

    revision: int = 0
    instances: Mapping[str, Registration] = field(default_factory=dict)
    edges: Mapping[str, Edge] = field(default_factory=dict)
    pins: Mapping[str, Edge] = field(default_factory=dict)

    def changed(self, update: Update, revision: int = 0) -> State:
        """The state after `update`; registrations in it get `revision`."""
        instances, edges, pins = dict(self.instances), dict(self.edges), dict(self.pins)
        for key, value in update.items():
            if key.endswith("/"):
                for below in [name for name in edges if name.startswith(key)]:
                    del edges[below]
            elif key.startswith("instances/"):
                if isinstance(value, Registration):
                    copy = Registration()
                    copy.CopyFrom(value)
                    copy.revision = revision
                    instances[copy.instance_id] = copy
                else:
                    instances.pop(key.removeprefix("instances/"), None)
            else:
                table = pins if key.startswith("pins/") else edges
                if isinstance(value, Edge):
                    table[key] = value
                else:
                    table.pop(key, None)
        return State(revision or self.revision, instances, edges, pins)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every edge as (upstream, downstream), pinned or declared, with repetitions."""
        for table in (self.pins, self.edges):
            for edge in table.values():
                yield edge.upstream, edge.downstream


@dataclass(frozen=True, slots=True)
class Change:
    """What one watcher is told at once: a snapshot, or all that one revision changed."""

    revision: int
    snapshot: bool
    instances: tuple[Registration, ...] = ()
    removed: tuple[str, ...] = ()
    graph: Graph | None = None


def difference(old: State, new: State) -> tuple[tuple[Registration, ...], tuple[str, ...]]:
    """Instances that are new or changed, and ids of those that are gone."""
    changed = tuple(
        registration for name, registration in new.instances.items() if old.instances.get(name) != registration
    )
    return changed, tuple(name for name in old.instances if name not in new.instances)
