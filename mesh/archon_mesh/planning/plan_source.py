"""The interface between the execution of plans and their maker: a model, or a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from archon_mesh.engine.plan import Task
from archon_mesh.planning.available_tools import AvailableTools


class PlanSource(Protocol):
    """Makes plans, makes them anew, and completes those whose next steps depend on results."""

    async def create_plan(
        self, goal: str, available_tools: AvailableTools = (), initial_context: Mapping[str, Any] | None = None
    ) -> Task:
        """Returns a plan for a goal. Raises ArchonError if there is none."""
        ...

    async def replan(
        self, task: Task, reason: str, available_tools: AvailableTools = (), *, split: Sequence[str] = ()
    ) -> Task:
        """Returns a plan for the rest of a task, with its completed subtasks. Raises ArchonError if there is none."""
        ...

    async def expand(self, task: Task, places: Sequence[str], available_tools: AvailableTools = ()) -> Task:
        """Returns the task with the subtasks that take the place of these ones, as `expanded` merges them. Raises
        ArchonError if there are none."""
        ...

    def answer(self, task: Task) -> str | None:
        """Returns the answer of an executed task, or None if it is the only final result, or a model's to write."""
        ...


@runtime_checkable
class FixedSource(Protocol):
    """A source whose plans follow from more than the query."""

    @property
    def request(self) -> str:
        """The origin of its plans, such as a workflow with its arguments. A journal goes on only with a source whose
        request is the same."""
        ...
