"""The events after the end of a task: a delegated one leaves its outcome to its parent, a step to its plan, and any
other one decides about its run."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.expansion import expand_plan
from archon_mesh.engine.decide.plan import alignment_checked, plan_changed, step_ended
from archon_mesh.engine.decide.plan_reply import AcceptedPlan
from archon_mesh.engine.decide.termination import orphans, then_end
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, TaskState


def fail(run: RunState, task: Task, before: list[ev.Event], failure: Failure) -> list[ev.Event]:
    """Fails the task for good. A delegated task leaves the failure to its parent, a step to its plan, and after a check
    of the plan that goes on; any other fails the run."""
    ended = [*before, ev.TaskEnded(task.task_id, task.role, task.attempt, TaskState.FAILED, failure)]
    if task.parent:
        return [*ended, *orphans(run, task)]
    if task.step_id and run.plan is not None:
        return step_ended(run, task, ended, TaskState.FAILED)
    if task.align:
        return alignment_checked(run, task, ended, None)
    return then_end(run, ended, {task.task_id}, TaskState.FAILED, failure)


def end_with_result(
    run: RunState, task: Task, decided: list[ev.Event], result: ev.ResultReceived, accepted: AcceptedPlan | None
) -> list[ev.Event]:
    """The decided events, which end with the result of the task, and the events that follow. `accepted` is the plan
    that the planner's result holds."""
    if task.parent:
        return [*decided, *orphans(run, task)]
    if run.plan is not None and task.step_id:
        return step_ended(run, task, decided, result.state)
    if task.align:
        return alignment_checked(run, task, decided, accepted)
    if result.state is not TaskState.COMPLETED:
        return then_end(run, decided, {task.task_id}, TaskState.FAILED, result.failure)
    if accepted is not None:
        events = [*decided, *orphans(run, task)]
        if run.plan is not None and run.plan.expanding:
            return expand_plan(run, events, accepted, task.task_id)
        return plan_changed(run, events, accepted, by=task.task_id)
    if run.plan is None and run.incomplete > 1:
        return [*decided, *orphans(run, task)]
    return then_end(run, decided, {task.task_id}, TaskState.COMPLETED)
