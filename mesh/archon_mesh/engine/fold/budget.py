"""Folds budget events: reservation and settlement."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import NOTHING, Amount


def budget_reserved(run: RunState, event: ev.BudgetReserved, time: float) -> None:
    task = run.tasks[event.task_id]
    task.requests[event.request_id] = event.failure if event.reserved is None else event.reserved
    task.applied = max(task.applied, event.sequence)
    if event.reserved is not None:
        task.reserved += event.reserved


def settle(run: RunState, task: Task, spent: Amount) -> None:
    """Replaces the reservation of the current attempt by its spending. Does nothing if no budget limits the task."""
    assert run.submission is not None
    if not run.submission.budget.limited and not (
        task.parent and any(ancestor.budget.limited for ancestor in run.lineage(task))
    ):
        return
    task.reserved, task.spent, run.spent = NOTHING, task.spent + spent, run.spent + spent
