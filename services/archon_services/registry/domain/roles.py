"""The joint declarations of each role's instances: kept with the state, so that no rule has to visit all instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from archon.api.registry.v1.registry_pb2 import Registration
from archon_services.common.tenants import role_key
from archon_services.common.versions import version_key

Declaration = tuple[tuple[int, ...], frozenset[str]]
"""The version of an instance and its upstream roles."""


@dataclass(frozen=True, slots=True)
class Role:
    """The newest version of a role that is alive, and the upstream roles that its instances declare. `declarations`
    says how many instances declare the same."""

    declarations: Mapping[Declaration, int] = field(default_factory=dict)
    newest: tuple[int, ...] = ()
    upstreams: frozenset[str] = frozenset()
    instances: int = 0

    def with_instance(self, registration: Registration) -> Role:
        """Returns the role with one more instance."""
        declaration = _declaration(registration)
        count = self.declarations.get(declaration, 0)
        declarations = {**self.declarations, declaration: count + 1}
        if count:
            return Role(declarations, self.newest, self.upstreams, self.instances + 1)
        version, upstreams = declaration
        if version < self.newest:
            newest, upstreams = self.newest, self.upstreams
        else:
            newest, upstreams = version, upstreams if version > self.newest else self.upstreams | upstreams
        return Role(declarations, newest, upstreams, self.instances + 1)

    def without_instance(self, registration: Registration) -> Role:
        """Returns the role with one instance less, which it must have."""
        declarations, declaration = dict(self.declarations), _declaration(registration)
        declarations[declaration] -= 1
        if declarations[declaration]:
            return Role(declarations, self.newest, self.upstreams, self.instances - 1)
        del declarations[declaration]
        newest = max((version for version, _ in declarations), default=())
        declared = [upstreams for version, upstreams in declarations if version == newest]
        return Role(declarations, newest, frozenset().union(*declared), self.instances - 1)


def summarize_roles(registrations: Iterable[Registration]) -> dict[str, Role]:
    """Returns the roles of `registrations` by their keys."""
    roles: dict[str, Role] = {}
    for registration in registrations:
        key = key_of(registration)
        roles[key] = roles.get(key, NO_INSTANCE).with_instance(registration)
    return roles


def key_of(registration: Registration) -> str:
    """Returns the key of the role of a registration."""
    return role_key(registration.tenant, registration.role)


def _declaration(registration: Registration) -> Declaration:
    upstreams = frozenset(role_key(registration.tenant, dependency.role) for dependency in registration.depends_on)
    return version_key(registration.version), upstreams


NO_INSTANCE: Final = Role()
