"""Decides about a step whose result is chosen from the results of others: its rule has decided, or leaves it to a role,
which then executes it like any other step."""

from __future__ import annotations

from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import approval
from archon_mesh.engine.decide.task_end import end_with_result, fail
from archon_mesh.engine.state import RunState
from archon_mesh.engine.types import UNDECIDED, Failure, TaskState, quantize


def decision(run: RunState, made: inp.DecisionIn, now: float) -> list[ev.Event]:
    """The result of the step, or the failure that leaves it to the role; no event if the step is not ready for a
    decision, or its rule has been asked before."""
    task = run.tasks.get(made.task_id)
    if task is None or run.ended or not awaits_decision(run, task.task_id) or now < task.not_before:
        return []
    if not made.is_decided:
        undecided = Failure("FAILED_PRECONDITION", UNDECIDED, f"undecided: {made.reason}", retry=int(RetryAdvice.NEVER))
        if not has_arbiter(run, task.task_id):
            return fail(run, task, [], undecided)
        return [ev.Retried(task.task_id, task.attempt, task.role, undecided, quantize(now), payload=made.payload)]
    received = ev.ResultReceived(
        task.task_id, task.attempt, task.role, TaskState.COMPLETED, made.payload, publish=False, winner=made.winner
    )
    result = inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, made.payload, publish=False)
    if (request := approval(run, task, result, received, None)) is not None:
        return [request]
    return end_with_result(run, task, [received], received, None)


def awaits_decision(run: RunState, task_id: str) -> bool:
    """Returns whether a task is ready, and the rule of its step has yet to decide."""
    plan, task = run.plan, run.tasks[task_id]
    if plan is None or task.undecided or not plan.in_force(task) or not plan.steps[task.step_id].decision:
        return False
    return run.ready(task)


def has_arbiter(run: RunState, task_id: str) -> bool:
    """Returns whether a role decides if the rule of a step does not."""
    plan = run.plan
    assert plan is not None
    return bool(plan.steps[run.tasks[task_id].step_id].role)
