"""What the instances of each role declare together: kept with the state, so that no rule has to visit all instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from archon.api.registry.v1.registry_pb2 import Registration
from archon_services.common.versions import version_key


@dataclass(frozen=True, slots=True)
class Role:
    """The newest version of a role that is alive, and the upstream roles that its instances declare."""

    newest: tuple[int, ...] = ()
    upstreams: frozenset[str] = frozenset()

    def with_instance(self, registration: Registration) -> Role:
        """Returns the role with one more instance."""
        version = version_key(registration.version)
        if version < self.newest:
            return self
        upstreams = frozenset(dependency.role for dependency in registration.depends_on)
        if version > self.newest:
            return Role(version, upstreams)
        return self if upstreams <= self.upstreams else Role(version, self.upstreams | upstreams)


def summarize_roles(registrations: Iterable[Registration], others: Mapping[str, Role] | None = None) -> dict[str, Role]:
    """Returns roles by name: those of `others` with `registrations` as additional instances."""
    roles = dict(others or {})
    for registration in registrations:
        roles[registration.role] = roles.get(registration.role, _NO_INSTANCE).with_instance(registration)
    return roles


_NO_INSTANCE = Role()
