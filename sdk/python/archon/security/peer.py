"""The member of a mesh that a call is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from archon.security.tokens import Audience


@dataclass(frozen=True, slots=True)
class Peer:
    """A service by its name, or the agents of a role. `tenant` is the agents'; empty: the caller's."""

    kind: Literal["service", "agent"]
    name: str
    tenant: str = ""

    @property
    def audience(self) -> Audience:
        """The audience of tokens that are presented to it."""
        return "services" if self.kind == "service" else "agents"


ORCHESTRATOR: Final = Peer("service", "orchestrator")
REGISTRY: Final = Peer("service", "registry")
MEMORY: Final = Peer("service", "memory")


def agent(role: str, tenant: str = "") -> Peer:
    """Returns the agents of a role of a tenant; empty: of the caller's."""
    return Peer("agent", role, tenant)
