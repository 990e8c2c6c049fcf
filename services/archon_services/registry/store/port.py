"""What every store of the registry can do. One keeps everything in etcd, one in memory; one suite holds for both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, RefusedEdge, Registration
from archon_services.registry.domain.state import Change, State


@dataclass(frozen=True, slots=True)
class Registered:
    """What stands after a registration; `ttl` is the lease as granted, in seconds."""

    registration: Registration
    ttl: int
    refused: list[RefusedEdge] = field(default_factory=list)


class RegistryStore(Protocol):
    """Every method raises Unavailable within 5 seconds where the store can't be reached."""

    async def register(self, wanted: Registration) -> Registered:
        """Upserts by instance_id and renews the lease of `wanted.ttl` seconds. Edges that would close a cycle are
        refused. Raises AlreadyExists (CONFLICT) where the instance_id belongs to another role or to somebody else."""
        ...

    async def keep_alive(self, instance_ids: Sequence[str]) -> list[int]:
        """Renews leases. Seconds left for each, in the same order; 0: the lease is gone."""
        ...

    async def deregister(self, instance_id: str) -> None:
        """Ends a registration; an unknown one is no error."""
        ...

    async def read(self) -> State:
        """The state as it stands now."""
        ...

    async def pin(self, edges: Sequence[Edge]) -> Graph:
        """Pins all of these edges or none; returns the graph after it. Raises GraphCycle."""
        ...

    async def unpin(self, edges: Sequence[Edge]) -> Graph:
        """Unpins these edges; returns the graph after it."""
        ...

    def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        """Follows the state: a snapshot, or the changes since `from_revision`; then every change once. Raises
        ResourceExhausted where the caller is too slow."""
        ...

    def end_watches(self) -> None:
        """Sends all watchers away, for a shutdown."""
        ...
