"""The member of a mesh that a call is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from archon.security.tokens import Audience


@dataclass(frozen=True, slots=True)
class Peer:
    """A service by its name, or the agents of a role."""

    kind: Literal["service", "agent"]
    name: str

    @property
    def audience(self) -> Audience:
        """The audience of tokens that are presented to it."""
        return "services" if self.kind == "service" else "agents"


ORCHESTRATOR: Final = Peer("service", "orchestrator")
REGISTRY: Final = Peer("service", "registry")
MEMORY: Final = Peer("service", "memory")


def agent(role: str) -> Peer:
    """Returns the agents of a role."""
    return Peer("agent", role)
