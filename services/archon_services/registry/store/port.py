"""The interface of the registry's stores. One test suite holds for all implementations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, RefusedEdge, Registration
from archon.principal import DEFAULT_TENANT
from archon_services.registry.domain.state import Change, State


@dataclass(frozen=True, slots=True)
class Registered:
    """The result of a registration. `ttl` is the lease as granted, in seconds."""

    registration: Registration
    ttl: int
    refused: list[RefusedEdge] = field(default_factory=list)


class RegistryStore(Protocol):
    """Keeps registrations, leases and edges. Every method raises Unavailable within 5 seconds if the store cannot be
    reached."""

    async def register(self, registration: Registration, host: str = "") -> Registered:
        """Upserts by instance_id and renews the lease of `registration.ttl` seconds. Edges that would close a cycle are
        refused. `host` is the client's, which is kept with the instance. Raises AlreadyExists (CONFLICT) if the
        instance_id belongs to another role or another identity, PermissionDenied if another client has registered it,
        ResourceExhausted if the instance is new and a bound on the number of instances is reached."""
        ...

    async def keep_alive(
        self, instance_ids: Sequence[str], owners: Sequence[str] = (), *, tenant: str = DEFAULT_TENANT
    ) -> list[int]:
        """Renews leases of a tenant. `owners` are the claimed owners, in the same order; none by default. Returns the
        seconds left for each; 0 if the lease has expired or belongs to another owner or tenant."""
        ...

    async def leases(self, instance_ids: Sequence[str]) -> list[float]:
        """Returns the seconds that each lease has left, without renewing it; 0 if there is none."""
        ...

    async def deregister(self, instance_id: str, owner: str = "", *, tenant: str = DEFAULT_TENANT) -> None:
        """Removes a registration of a tenant; an instance_id that it does not have is not an error. Raises
        PermissionDenied if `owner` does not own it."""
        ...

    async def read(self) -> State:
        """Returns the current state (linearizable)."""
        ...

    async def pin(self, edges: Sequence[Edge]) -> Graph:
        """Pins all edges, between keys of roles, or none, and returns the resulting graph. Raises GraphCycle."""
        ...

    async def unpin(self, edges: Sequence[Edge]) -> Graph:
        """Removes the pins of these edges and returns the resulting graph."""
        ...

    def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        """Yields a snapshot or the changes since `from_revision`, then every change once. Raises ResourceExhausted if
        the caller is too slow."""
        ...

    def end_watches(self) -> None:
        """Ends all watches with Unavailable, for a shutdown."""
        ...
