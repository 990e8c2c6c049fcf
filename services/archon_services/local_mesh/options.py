"""What a mesh on this machine may be told, and what of it is nonsense."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from archon.errors import InvalidArgument

ROLES: Final = ("requirements", "designer", "implementer", "coordinator")
"""The roles that come with Archon."""

SERVICES: Final = ("etcd", "registry", "memory", "orchestrator")
"""In the order they are needed."""

MOST_REPLICAS: Final = 32


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """`replicas` per role, 1 where a role isn't named; `only` these services and roles, all where empty; `etcd` an own
    one as host:port, or `memory`; `ports` that must be had, for services; `free_ports`: any, none is usual;
    `environment` adds variables for a role or service; `restarts` False leaves dead what died."""

    replicas: Mapping[str, int] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    etcd: str = ""
    model: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    free_ports: bool = False
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    restarts: bool = True

    def __post_init__(self) -> None:
        for role, count in self.replicas.items():
            if role not in ROLES:
                raise InvalidArgument(f"there is no role {role!r}; possible are {', '.join(ROLES)}")
            if not 0 <= count <= MOST_REPLICAS:
                raise InvalidArgument(f"{role} can have 0 to {MOST_REPLICAS} replicas, not {count}")
        for name in (*self.only, *self.environment):
            if name not in (*SERVICES, *ROLES):
                raise InvalidArgument(f"there is no {name!r}; possible are {', '.join((*SERVICES, *ROLES))}")
        for name, port in self.ports.items():
            if name not in SERVICES:
                raise InvalidArgument(f"{name!r} has no port to choose; possible are {', '.join(SERVICES)}")
            if not 1 <= port <= 65535:
                raise InvalidArgument(f"{port} is no port: 1 to 65535")

    def wants(self, name: str) -> bool:
        """Whether this service or role is to run here. etcd comes with the registry, unless there is an own one."""
        if name == "etcd":
            return not self.etcd and ("etcd" in self.only or self.wants("registry"))
        return not self.only or name in self.only


def read_pairs(values: Iterable[str], option: str, example: str) -> dict[str, int]:
    """`name=number` as given on a command line. Raises InvalidArgument."""
    pairs: dict[str, int] = {}
    for value in values:
        name, equals, number = value.partition("=")
        if not equals or not number.strip().isdecimal():
            raise InvalidArgument(f"{option} takes a name and a number, as in {option} {example}, not {value!r}")
        if name.strip() in pairs:
            raise InvalidArgument(f"{option} names {name.strip()} twice")
        pairs[name.strip()] = int(number)
    return pairs


def read_names(values: Iterable[str]) -> tuple[str, ...]:
    """Names, separated by commas or given one by one."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())
