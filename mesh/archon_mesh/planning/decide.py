"""Decides how a query is answered: directly, by a plan, or by a plan for several agents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from archon_mesh.core.words import topic_stems
from archon_mesh.engine.plan import Task
from archon_mesh.engine.plan.split_query import split_query

_COMPOUND: Final = re.compile(
    r"\s*(?:please\s+|can you\s+|could you\s+|help me\s+(?:to\s+)?)*"
    r"(plan|organi[sz]e|arrange|prepare|research|investigate|compare|coordinate|migrate)\b",
    re.IGNORECASE,
)

_BETWEEN: Final = re.compile(r"\band\b|[,;:&+]|\bwith\b", re.IGNORECASE)
_MAX_JOINS: Final = 20
_MAX_TEXT: Final = 2_000


class TaskMode(StrEnum):
    """How a query is answered."""

    DIRECT = "direct"
    PLANNED = "planned"
    SEVERAL_AGENTS = "several_agents"


@dataclass(frozen=True, slots=True)
class Decision:
    """A mode, and why it was chosen."""

    mode: TaskMode
    reason: str


def decide(query: str, roles: Collection[str] = (), tools: Mapping[str, str] | None = None) -> Decision:
    """Returns how a query is answered: directly if it is one step, otherwise by a plan, for the roles if there are any.

    A query is several steps if its text says so, or if an "and" or a comma joins the purposes of different `tools`,
    given with their descriptions.
    """
    steps = split_query(query)
    if len(steps) > 1:
        reason = f"the query has {len(steps)} steps"
    elif match := _COMPOUND.match(query):
        reason = f'"{match[1].lower()}" asks for several steps'
    elif pair := _two_tools(query, tools or {}):
        reason = f"the query is for {pair[0]} and for {pair[1]}"
    else:
        return Decision(TaskMode.DIRECT, "the query is one step")
    if roles:
        return Decision(TaskMode.SEVERAL_AGENTS, f"{reason}, and there are other agents")
    return Decision(TaskMode.PLANNED, reason)


def decided_by(task: Task, decision: Decision) -> Decision:
    """Returns the decision as the plan bears it out: several agents only if the plan names roles."""
    roles = dict.fromkeys(subtask.role for subtask in task.subtasks if subtask.role)
    if roles:
        names = ", ".join(list(roles)[:5])
        return Decision(TaskMode.SEVERAL_AGENTS, f"{decision.reason}; the plan gives subtasks to {names}")
    return Decision(TaskMode.PLANNED, f"{decision.reason}; no subtask needs another agent")


def _two_tools(query: str, tools: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the first two tools, one named only before, and one only behind, an "and" or a comma."""
    by_name = {name: topic_stems(f"{name} {description}"[:_MAX_TEXT]) for name, description in tools.items()}
    counts = Counter(stem for stems in by_name.values() for stem in stems)
    for match in islice(_BETWEEN.finditer(query), _MAX_JOINS):
        left, right = topic_stems(query[: match.start()][:_MAX_TEXT]), topic_stems(query[match.end() :][:_MAX_TEXT])
        # Words that several tools have in common do not tell which of them is meant.
        before = [name for name, stems in by_name.items() if any(counts[each] == 1 for each in stems & left)]
        behind = [name for name, stems in by_name.items() if any(counts[each] == 1 for each in stems & right)]
        first = next((name for name in before if name not in behind), None)
        second = next((name for name in behind if name not in before), None)
        if first is not None and second is not None:
            return first, second
    return None
