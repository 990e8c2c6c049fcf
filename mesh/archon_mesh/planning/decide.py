"""Decides how a query is answered: directly, by a plan, or by a plan for several agents."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from archon_mesh.core.plan import Task
from archon_mesh.llm.offline_plan import split_query

_COMPOUND: Final = re.compile(
    r"\s*(?:please\s+|can you\s+|could you\s+|help me\s+(?:to\s+)?)*"
    r"(plan|organi[sz]e|arrange|prepare|research|investigate|compare|coordinate|migrate)\b",
    re.IGNORECASE,
)


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


def decide(query: str, roles: Collection[str] = ()) -> Decision:
    """Returns how a query is answered: directly if it is one step, otherwise by a plan, for the roles if there are
    any."""
    steps = split_query(query)
    if len(steps) <= 1:
        match = _COMPOUND.match(query)
        if match is None:
            return Decision(TaskMode.DIRECT, "the query is one step")
        reason = f'"{match[1].lower()}" asks for several steps'
    else:
        reason = f"the query has {len(steps)} steps"
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
