"""Client of the registry: register, resolve, watch."""

from archon.propagation import PropagationPolicy
from archon.registry.client import RegistryClient
from archon.registry.graph import Graph, Lease, RefusedEdge, RegistryChange
from archon.registry.registration import (
    Capability,
    DependsOn,
    Profile,
    Registration,
    Tool,
    ToolShare,
)
from archon.registry.registration_handle import RegistrationHandle
from archon.types.edge import Edge

__all__ = [
    "Capability",
    "DependsOn",
    "Edge",
    "Graph",
    "Lease",
    "Profile",
    "PropagationPolicy",
    "RefusedEdge",
    "Registration",
    "RegistrationHandle",
    "RegistryChange",
    "RegistryClient",
    "Tool",
    "ToolShare",
]
