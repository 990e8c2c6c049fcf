"""The graph of roles, and the changes that a watch yields. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archon.registry.registration import Registration
from archon.types.edge import Edge


@dataclass(frozen=True, slots=True)
class RefusedEdge:
    """A declared edge that is left out, and the cycle that it would close, `a -> b -> a`. If the cycle is empty nothing
    prevents the edge any more, and the instance's next renewal adds it."""

    edge: Edge
    cycle: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The registry's grant to a registration: a lease of `ttl` seconds, and the edges that it refuses."""

    ttl: float
    refused: tuple[RefusedEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """Roles in topological order, and the edges between them, at one revision of the registry."""

    roles: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    revision: int = 0
    refused: tuple[RefusedEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """One message of a watch. In a snapshot `instances` are all live instances; otherwise they are new or changed, and
    `removed` holds the ids of instances that are gone. `graph` is the whole graph, or None if it did not change or is
    not watched. A watch of all tenants has the graphs of all tenants in `graphs` instead, if one of them changed."""

    revision: int
    snapshot: bool
    instances: tuple[Registration, ...] = ()
    removed: tuple[str, ...] = ()
    graph: Graph | None = None
    graphs: Mapping[str, Graph] | None = None
