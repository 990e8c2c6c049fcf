"""The graph of roles and the news of a watch, as the registry tells them. Plain values, no wire."""

from __future__ import annotations

from dataclasses import dataclass

from archon.propagation import PropagationPolicy
from archon.registry.registration import Registration


@dataclass(frozen=True, slots=True)
class Edge:
    """`downstream` gets `upstream`'s final answers. The last two are the registry's to say: whether an operator
    pinned it, and the instances that declare it."""

    upstream: str
    downstream: str
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    pinned: bool = False
    declared_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedEdge:
    """A declared edge that is left out, and the cycle it would close, `a -> b -> a`. An empty cycle: nothing is in
    its way any more, it comes with the instance's next beat."""

    edge: Edge
    cycle: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Roles in topological order, and the edges among them, at one revision of the registry."""

    roles: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    revision: int = 0
    refused: tuple[RefusedEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """One message of a watch. A snapshot replaces all that was known: `instances` are all that live. Else `instances`
    are those new or changed, `removed` the ids of those gone. `graph` is whole, None where it didn't change or isn't
    followed."""

    revision: int
    snapshot: bool
    instances: tuple[Registration, ...] = ()
    removed: tuple[str, ...] = ()
    graph: Graph | None = None
