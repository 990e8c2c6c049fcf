"""The registry's state at one revision, and the difference between two. Plain values, no I/O.

Keys are etcd's below the prefix, in every store:

    instances/{instance_id}                         a Registration
    hosts/{instance_id}                             the host that registered it; no key of its own in etcd
    edges/{upstream}/{downstream}/{instance_id}     an accepted Edge that this instance declares
    pins/{upstream}/{downstream}                    an Edge that an operator pinned

The roles in keys, in edges and in `State.roles` are keys of roles (see `archon_services.common.tenants`): roles of
several tenants are apart, and so are their edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, Registration
from archon_services.registry.domain.roles import NO_INSTANCE, Role, key_of, summarize_roles

Value = Registration | Edge | str
Update = Mapping[str, Value | None]
"""New values by key; None deletes the key. A key that ends in `/` deletes all keys below it. The host of an instance is
deleted with the instance."""


def instance_key(instance_id: str) -> str:
    """Returns the key of an instance."""
    return f"instances/{instance_id}"


def host_key(instance_id: str) -> str:
    """Returns the key of the host that registered an instance."""
    return f"hosts/{instance_id}"


def edge_key(upstream: str, downstream: str, instance_id: str) -> str:
    """Returns the key of an edge that an instance declares; without instance_id, the prefix of all declarations."""
    return f"edges/{upstream}/{downstream}/{instance_id}"


def pin_key(upstream: str, downstream: str) -> str:
    """Returns the key of a pinned edge."""
    return f"pins/{upstream}/{downstream}"


@dataclass(frozen=True, slots=True)
class State:
    """All records at one revision. The messages are shared between states and must not be changed. `hosts` are those
    that registered the instances, by instance_id. `roles`, and `clients`, the number of instances by host, are derived
    from the records, and computed if they are absent."""

    revision: int = 0
    instances: Mapping[str, Registration] = field(default_factory=dict)
    edges: Mapping[str, Edge] = field(default_factory=dict)
    pins: Mapping[str, Edge] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict, compare=False)
    clients: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Computes the derived fields if they are absent."""
        if not self.roles and self.instances:
            object.__setattr__(self, "roles", summarize_roles(self.instances.values()))
        if not self.clients and self.hosts:
            object.__setattr__(self, "clients", dict(Counter(self.hosts.values())))

    def with_update(self, update: Update, revision: int = 0) -> State:
        """Returns the state after `update`. Registrations in the update get `revision`."""
        draft = _Draft(self)
        for key, value in update.items():
            if key.endswith("/"):
                for below in [name for name in draft.edges if name.startswith(key)]:
                    del draft.edges[below]
            elif key.startswith("instances/"):
                draft.set_instance(key.removeprefix("instances/"), value, revision)
            elif key.startswith("hosts/"):
                draft.set_host(key.removeprefix("hosts/"), value)
            else:
                table = draft.pins if key.startswith("pins/") else draft.edges
                if isinstance(value, Edge):
                    table[key] = value
                else:
                    table.pop(key, None)
        return State(
            revision or self.revision,
            draft.instances,
            draft.edges,
            draft.pins,
            draft.hosts,
            draft.roles,
            draft.clients,
        )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields every edge, pinned or declared, as (upstream, downstream), with repetitions."""
        for table in (self.pins, self.edges):
            for edge in table.values():
                yield edge.upstream, edge.downstream


class _Draft:
    """Copies of a state's tables, which are changed together."""

    def __init__(self, state: State) -> None:
        self.instances, self.edges, self.pins = dict(state.instances), dict(state.edges), dict(state.pins)
        self.hosts, self.roles, self.clients = dict(state.hosts), dict(state.roles), dict(state.clients)

    def set_instance(self, instance_id: str, value: Value | None, revision: int) -> None:
        """Puts a registration with this revision; removes the instance and its host if the value is no registration."""
        previous = self.instances.pop(instance_id, None)
        if previous is not None:
            key = key_of(previous)
            role = self.roles[key].without_instance(previous)
            if role.instances:
                self.roles[key] = role
            else:
                del self.roles[key]
        if not isinstance(value, Registration):
            self.set_host(instance_id, None)
            return
        registration = Registration()
        registration.CopyFrom(value)
        registration.revision = revision
        self.instances[instance_id] = registration
        key = key_of(registration)
        self.roles[key] = self.roles.get(key, NO_INSTANCE).with_instance(registration)

    def set_host(self, instance_id: str, value: Value | None) -> None:
        """Puts the host that registered an instance; removes it if the value is no host."""
        previous = self.hosts.pop(instance_id, "")
        if previous:
            self.clients[previous] -= 1
            if not self.clients[previous]:
                del self.clients[previous]
        if isinstance(value, str) and value:
            self.hosts[instance_id] = value
            self.clients[value] = self.clients.get(value, 0) + 1


@dataclass(frozen=True, slots=True)
class Change:
    """One message to a watcher: a snapshot, or all that one revision changed, in all tenants. `removed` are the last
    registrations of the instances that are gone."""

    revision: int
    snapshot: bool
    instances: tuple[Registration, ...] = ()
    removed: tuple[Registration, ...] = ()
    graph: Graph | None = None


def difference(old: State, new: State) -> tuple[tuple[Registration, ...], tuple[Registration, ...]]:
    """Returns the new and changed instances, and those removed."""
    changed = tuple(
        registration
        for name, registration in new.instances.items()
        if (previous := old.instances.get(name)) is not registration and previous != registration
    )
    return changed, tuple(instance for name, instance in old.instances.items() if name not in new.instances)


def changes_of(update: Update, old: State, new: State) -> tuple[tuple[Registration, ...], tuple[Registration, ...]]:
    """Returns the same as `difference` for two states that this update separates, without visiting all instances."""
    touched = [key.removeprefix("instances/") for key in update if key.startswith("instances/")]
    changed = tuple(new.instances[name] for name in touched if name in new.instances)
    return changed, tuple(
        old.instances[name] for name in touched if name in old.instances and name not in new.instances
    )
