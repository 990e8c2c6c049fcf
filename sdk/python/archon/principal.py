"""Who calls: a person, a client program, an agent or a service of the mesh."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_TENANT: Final = "default"

TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
"""The name of a tenant: it is a label of DNS names, and a part of SPIFFE ids and of keys."""


class Kind(StrEnum):
    """The kind of a caller, on which its permissions depend."""

    VIEWER = "viewer"
    AUDITOR = "auditor"
    OPERATOR = "operator"
    ADMIN = "admin"
    AGENT = "agent"
    SERVICE = "service"


ACT_FOR_OTHERS: Final = frozenset({Kind.ADMIN, Kind.SERVICE})
"""Kinds whose calls may name another identity, on whose behalf they are made."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose credentials were verified.

    `name` is a person's or a client's, the role of an agent, or the name of a service. `roles` are the roles that
    an agent may register. `expires` is when its credentials end, in wall seconds; `token_id` is empty if it has no
    token."""

    kind: Kind
    name: str
    tenant: str = DEFAULT_TENANT
    roles: frozenset[str] = frozenset()
    expires: float = math.inf
    token_id: str = ""

    @property
    def identity(self) -> str:
        """The identity of its calls, such as `alice`, `agent:reviewer` or `service:orchestrator`."""
        return f"{self.kind}:{self.name}" if self.kind in (Kind.AGENT, Kind.SERVICE) else self.name

    @property
    def may_act_for_others(self) -> bool:
        """Whether its calls may name another identity, on whose behalf they are made."""
        return self.kind in ACT_FOR_OTHERS

    def may_act_in(self, tenant: str) -> bool:
        """Whether its calls may be made in a tenant: in another than its own, only a service of the mesh may call."""
        return tenant == self.tenant or self.is_of_all_tenants

    @property
    def is_of_all_tenants(self) -> bool:
        """Whether it serves all tenants: a service of the default tenant."""
        return self.kind is Kind.SERVICE and self.tenant == DEFAULT_TENANT
