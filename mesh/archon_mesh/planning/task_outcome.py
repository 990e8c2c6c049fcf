"""How a task was answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archon_mesh.engine.plan import Task
from archon_mesh.planning.attempts import Measured
from archon_mesh.planning.decide import TaskMode


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a query was answered: `mode`, and the `reason` for it.

    `task` is the last plan, None if there was none; `plans` are those that were given up before it. `measured` has the
    measurements of each subtask, beside its estimates; `seconds` is the time in all.
    """

    text: str
    mode: TaskMode
    reason: str
    task: Task | None = None
    plans: tuple[Task, ...] = ()
    measured: Mapping[str, Measured] = field(default_factory=dict)
    replans: int = 0
    seconds: float = 0.0
