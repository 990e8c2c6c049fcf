"""SPIFFE ids of the members of a mesh (https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md), such as
spiffe://mesh/ns/default/service/registry and spiffe://mesh/ns/default/agent/reviewer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from archon.errors import InvalidArgument
from archon.principal import Kind

_MESH: Final = r"[a-z0-9][a-z0-9._-]{0,254}"
_SEGMENT: Final = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,254}"
_ID: Final = re.compile(rf"spiffe://({_MESH})/ns/({_SEGMENT})/({'|'.join(Kind)})/({_SEGMENT})")


@dataclass(frozen=True, slots=True)
class SpiffeId:
    """The id of a member: of the mesh `mesh`, in the tenant `tenant`, of a kind, with a name."""

    mesh: str
    tenant: str
    kind: Kind
    name: str

    @classmethod
    def parse(cls, uri: str) -> SpiffeId:
        """Reads an id. Raises InvalidArgument if it is not the id of a member of a mesh."""
        match = _ID.fullmatch(uri)
        if match is None:
            raise InvalidArgument(f"{uri!r} is not the id of a member: spiffe://MESH/ns/TENANT/KIND/NAME")
        mesh, tenant, kind, name = match.groups()
        return cls(mesh, tenant, Kind(kind), name)

    def __str__(self) -> str:
        return f"spiffe://{self.mesh}/ns/{self.tenant}/{self.kind}/{self.name}"

    @property
    def dns_name(self) -> str:
        """The same as a name of DNS, which clients verify that know no URIs: registry.service.default.mesh."""
        return f"{self.name}.{self.kind}.{self.tenant}.{self.mesh}"
