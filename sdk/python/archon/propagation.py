"""Propagation policies of items and of the edges between roles."""

from __future__ import annotations

from enum import StrEnum


class PropagationPolicy(StrEnum):
    """The kind of an item's content, and the widest that an edge lets through. Each includes the levels before it."""

    FINAL_RESPONSE_ONLY = "final_response_only"
    TOOL_RESULTS = "tool_results"
    FULL_HISTORY = "full_history"

    def lets_through(self, item: PropagationPolicy) -> bool:
        """Whether an edge of this policy lets an item of policy `item` through."""
        return _LEVEL[item] <= _LEVEL[self]


_LEVEL = {policy: level for level, policy in enumerate(PropagationPolicy)}
