"""Which tools an agent may call, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.agent.errors import ToolPolicyViolation


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """`allowed` are the names of the tools, None: all; `at_most` says how often one may be called in a run."""

    allowed: frozenset[str] | None = None
    at_most: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, given: ToolPolicy | Mapping[str, object] | None) -> ToolPolicy:
        """Also from `{"allowed": [...], "at_most": {...}}`. Raises TypeError for another key."""
        if given is None or isinstance(given, ToolPolicy):
            return given or cls()
        known: dict[str, Any] = dict(given)
        if known.get("allowed") is not None:
            known["allowed"] = frozenset(known["allowed"])
        return cls(**known)

    def offers(self, name: str, used: Mapping[str, int]) -> bool:
        """Whether it may be called now."""
        if self.allowed is not None and name not in self.allowed:
            return False
        return used.get(name, 0) < self.at_most.get(name, 1 << 30)

    def use(self, name: str, used: dict[str, int]) -> None:
        """Counts a call. Raises ToolPolicyViolation."""
        if not self.offers(name, used):
            why = f"at most {self.at_most[name]} times in a run" if name in self.at_most else "not at all"
            raise ToolPolicyViolation(f"{name} may be called {why}", metadata={"tool": name})
        used[name] = used.get(name, 0) + 1
