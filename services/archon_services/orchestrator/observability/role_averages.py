"""The average time and cost of each role's tasks, for the estimates of plans: in memory, since the process began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import TaskState

MIN_TASKS: Final = 3
"""Completed tasks of a role from which on their average says more than the role's own estimate."""

MAX_ROLES: Final = 1_000
"""Roles whose averages are kept."""

_WEIGHT: Final = 0.1
"""Of the newest task in an average, once there are ten: older ones count less and less."""


@dataclass(slots=True)
class RoleAverage:
    """The average of a role's completed tasks: seconds of the last attempt, and cost in millionths of a US dollar."""

    tasks: int = 0
    seconds: float = 0.0
    cost_micro_usd: float = 0.0

    def add(self, seconds: float, cost_micro_usd: int) -> None:
        """Adds a completed task."""
        self.tasks += 1
        weight = max(_WEIGHT, 1 / self.tasks)
        self.seconds += weight * (seconds - self.seconds)
        self.cost_micro_usd += weight * (cost_micro_usd - self.cost_micro_usd)


class RoleAverages:
    """The averages of all roles."""

    def __init__(self) -> None:
        self._roles: dict[str, RoleAverage] = {}

    def note(self, events: Sequence[ev.Event], run: RunState) -> None:
        """Adds the tasks that completed with these events; `run` is the state after them."""
        for event in events:
            if type(event) is ev.ResultReceived and event.state is TaskState.COMPLETED and event.attempt:
                task = run.tasks[event.task_id]
                if (average := self._average(event.role)) is not None:
                    average.add(max(0.0, task.end_time - task.start_time), event.spent.cost)

    def of(self, role: str) -> RoleAverage | None:
        """Returns the average of a role; None if it has completed fewer than MIN_TASKS tasks."""
        average = self._roles.get(role)
        return average if average is not None and average.tasks >= MIN_TASKS else None

    def _average(self, role: str) -> RoleAverage | None:
        average = self._roles.get(role)
        if average is None and len(self._roles) < MAX_ROLES:
            average = self._roles[role] = RoleAverage()
        return average
