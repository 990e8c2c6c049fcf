"""Which tools an agent may call, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archon_mesh.agent.errors import ToolPolicyViolation
from archon_mesh.tools.permissions import ToolPermissions


@dataclass(frozen=True, slots=True)
class ToolPolicy(ToolPermissions):
    """Permissions, and in `at_most` the maximum calls per run, by tool name."""

    at_most: Mapping[str, int] = field(default_factory=dict)

    def offers(self, name: str, calls: Mapping[str, int], *, dangerous: bool = False, session_id: str = "") -> bool:
        """Tells whether a model is offered the tool; `calls` counts the calls of the run by tool."""
        if name in self.at_most and calls.get(name, 0) >= self.at_most[name]:
            return False
        return self.refusal(name, dangerous=dangerous, session_id=session_id) is None

    def count_call(self, name: str, calls: dict[str, int]) -> None:
        """Counts a call. Raises ToolPolicyViolation if it is one too many."""
        made = calls.get(name, 0)
        if name in self.at_most and made >= self.at_most[name]:
            why = f"tool {name} may be called at most {self.at_most[name]} times per run"
            raise ToolPolicyViolation(why, metadata={"tool": name})
        calls[name] = made + 1
