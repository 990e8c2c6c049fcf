"""Errors of planning, part of the error tree of `archon.errors`."""

from __future__ import annotations

from collections.abc import Sequence

from archon import errors
from archon.errors import PermissionDenied
from archon_mesh.engine.plan import SubTaskStatus, Task
from archon_mesh.llm.text_format import ParsingError

MAX_SHOWN = 300
"""Characters of a query in a message."""


class MalformedPlan(ParsingError):
    """A planner's reply is no plan that can be read."""


class PlanNotApproved(PermissionDenied):
    """The person or program that approves plans has refused one. `task` is the refused plan."""

    def __init__(self, message: str, task: Task | None = None) -> None:
        super().__init__(message)
        self.task = task


class PlanFailed(errors.PlanFailed):
    """A plan failed in this process, and so did the plans that were made in its place.

    `plans` has them all as they ended, the first one first; `suggestion` is a simpler query that may succeed.
    """

    def __init__(self, message: str, plans: Sequence[Task] = (), suggestion: str = "") -> None:
        hint = f" A simpler goal may succeed: {suggestion}" if suggestion else ""
        metadata = {"suggestion": suggestion} if suggestion else {}
        if plans:
            failed = [subtask.id for subtask in plans[-1].subtasks if subtask.status is SubTaskStatus.FAILED]
            metadata["failed_steps"] = ", ".join(failed)
        super().__init__(message + hint, metadata=metadata)
        self.plans = tuple(plans)
        self.suggestion = suggestion
