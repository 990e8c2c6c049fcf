"""Decides about attempts: dispatch to a reserved slot, rejection, loss."""

from __future__ import annotations

from archon.failure_kinds import GIVEN_BACK
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.context import context_of
from archon_mesh.engine.decide.breakpoints import hold
from archon_mesh.engine.decide.budget import first_slice
from archon_mesh.engine.decide.retries import Kind, next_try, raised, recovery_exhausted
from archon_mesh.engine.decide.task_end import fail
from archon_mesh.engine.decide.termination import then_end
from archon_mesh.engine.state import RunState
from archon_mesh.engine.step_placement import assignee
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import DRAINING, Failure, TaskState, quantize


def slot_found(run: RunState, slot: inp.SlotFound, now: float) -> list[ev.Event]:
    """Dispatches the task, unless it is no longer ready, or a breakpoint holds it; fails it if no budget is left."""
    task = run.tasks.get(slot.task_id)
    if task is None or run.ended or not run.ready(task) or now < task.not_before:
        return []
    if run.breakpoints and (held := hold(run, task)) is not None:
        return [held]
    reserved = first_slice(run, task)
    if isinstance(reserved, Failure):
        return fail(run, task, [], reserved)
    context = context_of(run, task)
    role = assignee(run, task)[0] if run.plan is not None and task.step_id else task.role
    return [
        ev.Dispatched(
            task.task_id,
            task.attempt + 1,
            run.epoch,
            role,
            slot.instance_id,
            context,
            reserved,
            slot.conversation_version,
            slot.placement,
            slot.expected_seconds,
            slot.ignores_breakpoints,
        )
    ]


def input_missing(run: RunState, missing: inp.InputMissing, now: float) -> list[ev.Event]:
    """Fails a step whose input cannot be made, unless it is no longer ready."""
    task = run.tasks.get(missing.task_id)
    if task is None or run.ended or task.attempt + 1 != missing.attempt or not run.ready(task):
        return []
    return fail(run, task, [], raised(run, missing.failure))


def reject(run: RunState, rejection: inp.RejectIn, now: float) -> list[ev.Event]:
    """Schedules another attempt after a rejection, or fails the task after too many."""
    task = run.current(rejection.task_id, rejection.attempt)
    if run.ended or task is None:
        return []
    return _rejected(run, task, rejection.failure, rejection.delay, now)


def _rejected(run: RunState, task: Task, failure: Failure, delay: float, now: float) -> list[ev.Event]:
    kind, tried = (Kind.RETURNED, task.returns) if failure.reason == DRAINING else (Kind.REFUSED, task.rejects)
    due = next_try(kind, tried + 1, delay, now)
    rejected = ev.Rejected(task.task_id, task.attempt, task.instance_id, failure, quantize(now) if due is None else due)
    if run.ending is not None:
        return then_end(run, [rejected], {task.task_id})
    if task.stopping:
        return [rejected, _cancelled(task)]
    if due is None:
        return fail(run, task, [rejected], failure)
    return [rejected]


def lost(run: RunState, loss: inp.LostIn, now: float) -> list[ev.Event]:
    """Allows another attempt after a loss, or fails the task or the run after too many."""
    task = run.current(loss.task_id, loss.attempt)
    if run.ended or task is None:
        return []
    if loss.on_purpose:
        message = f"instance {task.instance_id} was stopped on purpose"
        metadata = ((GIVEN_BACK, "true"), ("instance_id", task.instance_id))
        return _rejected(run, task, Failure("UNAVAILABLE", DRAINING, message, metadata), 0.0, now)
    lost = ev.Lost(task.task_id, task.attempt, task.instance_id, raised(run, loss.failure))
    if run.ending is not None:
        return then_end(run, [lost], {task.task_id})
    if task.stopping:
        return [lost, _cancelled(task)]
    if (exhausted := recovery_exhausted(run.recovered)) is not None:
        return fail(run, task, [lost], exhausted)
    if next_try(Kind.LOST, task.losses + 1, None, now) is not None:
        return [lost]
    poisoned = Failure(
        "ABORTED",
        "POISONED",
        f"{task.losses + 1} attempts of {task.role} ended with the loss of their process",
        (("role", task.role), ("task_id", task.task_id)),
    )
    return fail(run, task, [lost], poisoned)


def _cancelled(task: Task) -> ev.Event:
    return ev.TaskEnded(task.task_id, task.role, task.attempt, TaskState.CANCELED, task.failure)
