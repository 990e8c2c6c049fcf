"""A task: a query, the planner's understanding of it, and the subtasks that lead there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from archon_mesh.engine.plan.errors import UnknownSubTask, shown
from archon_mesh.engine.plan.subtask import SubTask, SubTaskStatus


@dataclass(frozen=True, slots=True)
class Task:
    """A query with its plan. `goal` is the aim of `original_query` in the planner's words; `context` has values that
    templates may use."""

    id: str
    original_query: str
    goal: str
    subtasks: tuple[SubTask, ...]
    context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subtasks", tuple(self.subtasks))
        object.__setattr__(self, "context", dict(self.context))

    def get_subtask(self, id: str) -> SubTask | None:
        """Returns the subtask with an id, or None."""
        return next((subtask for subtask in self.subtasks if subtask.id == id), None)

    def update_subtask(self, subtask: SubTask) -> Task:
        """Returns the task with this subtask in place of the one with the same id. Raises UnknownSubTask."""
        for index, known in enumerate(self.subtasks):
            if known.id == subtask.id:
                return replace(self, subtasks=(*self.subtasks[:index], subtask, *self.subtasks[index + 1 :]))
        raise UnknownSubTask(f"task {shown(self.id)} has no subtask {shown(subtask.id)!r}")

    @property
    def completed_ids(self) -> frozenset[str]:
        """The ids of the completed subtasks."""
        return frozenset(subtask.id for subtask in self.subtasks if subtask.status is SubTaskStatus.COMPLETED)
