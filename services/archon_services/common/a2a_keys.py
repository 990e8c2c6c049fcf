"""Keys of the metadata of A2A messages and tasks by which meshes of Archon understand each other through A2A. An agent
of another kind needs none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.types.budget import Budget
from archon.types.usage import COUNTS, Usage

RESERVED: Final = "dev.archon/"
"""Prefix of the keys."""

INPUT_ID: Final = "dev.archon/input-id"
"""Of a question, and of the message that answers it: needed if several questions are open."""

DECISION: Final = "dev.archon/decision"
"""Of a message that answers an approval: approve, reject or modify. Without it the text decides."""

KIND: Final = "dev.archon/question-kind"
"""Of a question: input, approval, or secret."""

SCHEMA: Final = "dev.archon/schema"
"""Of a question: the JSON Schema of its answer."""

ROLE: Final = "dev.archon/role"
"""Of a question: the role that asks."""

USAGE: Final = "dev.archon/usage"
"""Of a task: the counts of its usage."""

TIMEOUT: Final = "dev.archon/timeout"
"""Of a request: seconds that the task has."""

BUDGET: Final = "dev.archon/budget"
"""Of a request: the limits max_tokens, max_cost_micro_usd and max_model_calls of the task."""

_LIMITS: Final = ("max_tokens", "max_cost_micro_usd", "max_model_calls")


def usage_values(usage: Usage) -> dict[str, int]:
    """Returns the counts of a usage that are not 0."""
    return {name: count for name in COUNTS if (count := getattr(usage, name))}


def usage_from(values: object) -> Usage:
    """Returns the usage that another system states: whatever is no count is 0."""
    if not isinstance(values, dict):
        return Usage()
    counts: dict[str, Any] = {name: max(0, count) for name in COUNTS if isinstance(count := values.get(name), int)}
    return Usage(**counts)


def budget_values(budget: Budget) -> dict[str, int]:
    """Returns the limits of a budget that are set."""
    return {name: limit for name in _LIMITS if (limit := getattr(budget, name))}


def budget_from(metadata: Mapping[str, Any]) -> Budget | None:
    """Returns the budget that a request asks for, None without one. Raises InvalidArgument."""
    values = metadata.get(BUDGET)
    if values is None:
        return None
    if not isinstance(values, dict) or not all(
        name in _LIMITS and isinstance(limit, int) and not isinstance(limit, bool) for name, limit in values.items()
    ):
        raise InvalidArgument(f"{BUDGET} has the integers {', '.join(_LIMITS)}")
    return Budget(**values)


def timeout_from(metadata: Mapping[str, Any]) -> float | None:
    """Returns the seconds that a request gives the task, None without a limit. Raises InvalidArgument."""
    value = metadata.get(TIMEOUT)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise InvalidArgument(f"{TIMEOUT} is a number of seconds up to 86,400")
    return float(value)
