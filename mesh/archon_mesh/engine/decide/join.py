"""Decides which steps are stopped because enough of the others have completed."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.termination import stop
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import NOT_NEEDED, Failure

_FAILURE: Final = Failure("CANCELLED", NOT_NEEDED, "the steps that wait for the result have enough others")


def stop_unneeded(run: RunState, completed: Task) -> tuple[list[ev.Event], int]:
    """Stops the steps whose results no step needs any more, now that a step has completed: the other dependencies of
    those that have their quorum by it, and the steps that only those need. Returns the events, and how many steps they
    stop."""
    plan = run.plan
    assert plan is not None
    successors = [run.tasks[id_] for id_ in completed.successors]
    full = {
        each.task_id
        for each in successors
        if each.missing == 1 and plan.in_force(each) and plan.steps[each.step_id].quorum
    }
    events: list[ev.Event] = []
    count = 0
    stopped: set[str] = set()
    pending = [id_ for task_id in full for id_ in run.tasks[task_id].predecessors]
    while pending:
        task = run.tasks[pending.pop(0)]
        if task is completed or task.answered or task.task_id in stopped or not plan.in_force(task):
            continue
        if all(_needs_no_more(run, run.tasks[id_], full | stopped) for id_ in task.successors):
            events += stop(run, task, _FAILURE, stopped)
            count += 1
            pending += task.predecessors
    return events, count


def _needs_no_more(run: RunState, task: Task, satisfied: set[str]) -> bool:
    plan = run.plan
    assert plan is not None
    if task.answered or task.task_id in satisfied or not plan.in_force(task):
        return True
    return bool(plan.steps[task.step_id].quorum) and not task.missing
