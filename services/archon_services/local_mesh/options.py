"""Options of a mesh on this machine, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from archon.errors import InvalidArgument

DEFAULT_ROLES: Final = ("requirements", "designer", "implementer", "coordinator", "planner")
"""The reference roles that a mesh runs by default."""

WORKFLOW: Final = "workflow"
"""The role that interprets workflows: it is started when one is run."""

ROLES: Final = (*DEFAULT_ROLES, "researcher", "writer", "editor", "coder", "validator", "arbiter", WORKFLOW)
"""All reference roles."""

SERVICES: Final = ("etcd", "registry", "memory", "orchestrator")
"""In the order of their dependencies."""

GATEWAY: Final = "gateway"
"""The HTTP gateway, which runs beside the services unless `only` leaves it out."""

SERVERS: Final = (*SERVICES, GATEWAY)
"""All processes with a port that can be chosen."""

MAX_REPLICAS: Final = 32


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """Options of a mesh. Raises InvalidArgument if a name, a port or a number of replicas is invalid."""

    replicas: Mapping[str, int] = field(default_factory=dict)
    """Processes per role; 1 for roles that are missing. A role that is named is run."""
    only: tuple[str, ...] = ()
    """Services and roles to run; all services and DEFAULT_ROLES if empty."""
    roles: tuple[str, ...] = ()
    """Further roles to run."""
    etcd: str = ""
    """An existing etcd as host:port, or `memory`; the bundled etcd if empty."""
    model: str = ""
    """The model of all roles; their own default if empty."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Fixed ports of services: the start fails if one is in use."""
    free_ports: bool = False
    """Whether services listen on random free ports instead of the default ports."""
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Additional environment variables per role or service."""
    restarts: bool = True
    """Whether processes that exit are restarted."""
    jaeger: str = ""
    """Jaeger's program, to which all processes export their spans; none is started if empty."""

    tls: bool = False
    """Whether connections between the processes are encrypted, with certificates of an authority of the mesh."""

    def __post_init__(self) -> None:
        for role, count in self.replicas.items():
            if role not in ROLES:
                raise InvalidArgument(f"unknown role {role!r}: expected one of {', '.join(ROLES)}")
            if not 0 <= count <= MAX_REPLICAS:
                raise InvalidArgument(f"invalid number of replicas {count} of {role}: expected 0 to {MAX_REPLICAS}")
        for role in self.roles:
            if role not in ROLES:
                raise InvalidArgument(f"unknown role {role!r}: expected one of {', '.join(ROLES)}")
        for name in (*self.only, *self.environment):
            if name not in (*SERVERS, *ROLES):
                raise InvalidArgument(
                    f"unknown service or role {name!r}: expected one of {', '.join((*SERVERS, *ROLES))}"
                )
        for name, port in self.ports.items():
            if name not in SERVERS:
                raise InvalidArgument(f"unknown service {name!r}: expected one of {', '.join(SERVERS)}")
            if not 1 <= port <= 65535:
                raise InvalidArgument(f"invalid port {port}: expected 1 to 65535")

    def wants(self, name: str) -> bool:
        """Whether to run this service or role. The bundled etcd runs with the registry, unless `etcd` is set."""
        if name == "etcd":
            return not self.etcd and ("etcd" in self.only or self.wants("registry"))
        if name in self.roles:
            return True
        if self.only:
            return name in self.only
        return name in SERVERS or name in DEFAULT_ROLES or name in self.replicas
