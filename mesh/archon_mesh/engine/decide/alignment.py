"""Decides when the planner is asked whether the plan in force still leads to the goal, and when it is asked no more.

Such a check holds up nothing: the plan goes on meanwhile. It is stopped if the planner is needed for anything else, if
a person edits the plan, and at the end of the run.
"""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.termination import stop
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure

_STOPPED = Failure("CANCELLED", "CANCELLED", "the plan that was to be checked is changed, or has been executed")


def is_check_due(run: RunState, completed: Task | None) -> bool:
    """Tells whether the planner must be asked about the plan, now that a step has `completed`, or, with None, that the
    check before has ended. It is if it has nothing else to do, and another plan could still change the work."""
    plan, submission = run.plan, run.submission
    if plan is None or submission is None or not submission.check_alignment:
        return False
    if plan.planner or plan.synthesis or plan.alignments >= plan.rules.policy.max_alignment_checks:
        return False
    is_free = not plan.alignment if completed is not None else plan.unchecked
    return is_free and plan.counters.replans < plan.rules.policy.max_replans and _is_left_to_begin(run, completed)


def _is_left_to_begin(run: RunState, completed: Task | None) -> bool:
    """Tells whether a step has not begun, besides those that the `completed` one lets start now."""
    plan = run.plan
    assert plan is not None
    waiting = (run.tasks[id_] for id_ in plan.tasks.values())
    waiting = (task for task in waiting if not (task.ended or task.attempt or task.stopping))
    if completed is None:
        return any(True for _ in waiting)
    starting = {id_ for id_ in completed.successors if run.tasks[id_].missing == 1}
    return any(task.task_id not in starting for task in waiting)


def without_outdated_check(run: RunState, decided: list[ev.Event]) -> list[ev.Event]:
    """Returns the decided events. If the planner is needed for something else, or the plan changes, the check in
    progress is stopped before."""
    if run.plan is None or not run.plan.alignment:
        return decided
    task = run.tasks[run.plan.alignment]
    for position, event in enumerate(decided):
        if isinstance(event, (ev.ResultReceived, ev.TaskEnded)) and event.task_id == task.task_id:
            return decided  # the check itself has ended
        if type(event) is ev.Planned or (type(event) is ev.TaskCreated and _is_of_planner(event)):
            ended = [each for each in decided if not (type(each) is ev.TaskEnded and each.task_id == task.task_id)]
            return [*ended[:position], *stop(run, task, _STOPPED), *ended[position:]]
    return decided


def _is_of_planner(created: ev.TaskCreated) -> bool:
    return not (created.step_id or created.parent or created.align)
