"""The registry from a member's or a client's side: register, find, follow."""

from archon.propagation import PropagationPolicy
from archon.registry.client import RegistryClient
from archon.registry.graph import Edge, Graph, RefusedEdge, RegistryChange
from archon.registry.handle import RegistrationHandle
from archon.registry.registration import (
    Capability,
    DependsOn,
    Profile,
    Registration,
    Tool,
)

__all__ = [
    "Capability",
    "DependsOn",
    "Edge",
    "Graph",
    "Profile",
    "PropagationPolicy",
    "RefusedEdge",
    "Registration",
    "RegistrationHandle",
    "RegistryChange",
    "RegistryClient",
    "Tool",
]
