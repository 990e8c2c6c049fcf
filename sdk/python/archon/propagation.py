"""Propagation policies of the edges between roles."""

from __future__ import annotations

from enum import StrEnum


class PropagationPolicy(StrEnum):
    """How much of an upstream role's work an edge lets through; each level includes the levels above it."""

    FINAL_RESPONSE_ONLY = "final_response_only"
    TOOL_RESULTS = "tool_results"
    FULL_HISTORY = "full_history"
