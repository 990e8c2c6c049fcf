"""Which tools an agent may call, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.agent.errors import ToolPolicyViolation


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """`allowed` lists tool names, None for all tools; `at_most` limits the calls per run, by tool name."""

    allowed: frozenset[str] | None = None
    at_most: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, policy: ToolPolicy | Mapping[str, object] | None) -> ToolPolicy:
        """Also accepts `{"allowed": [...], "at_most": {...}}`. Raises TypeError for any other key."""
        if policy is None or isinstance(policy, ToolPolicy):
            return policy or cls()
        fields: dict[str, Any] = dict(policy)
        if fields.get("allowed") is not None:
            fields["allowed"] = frozenset(fields["allowed"])
        return cls(**fields)

    def permits(self, name: str, calls: Mapping[str, int]) -> bool:
        """Tells whether the tool may be called once more; `calls` counts the calls of the run by tool."""
        if self.allowed is not None and name not in self.allowed:
            return False
        return name not in self.at_most or calls.get(name, 0) < self.at_most[name]

    def count_call(self, name: str, calls: dict[str, int]) -> None:
        """Counts a call. Raises ToolPolicyViolation if the policy does not permit it."""
        if not self.permits(name, calls):
            limited = name in self.at_most and (self.allowed is None or name in self.allowed)
            why = f"may be called at most {self.at_most[name]} times per run" if limited else "is not allowed"
            raise ToolPolicyViolation(f"tool {name} {why}", metadata={"tool": name})
        calls[name] = calls.get(name, 0) + 1
