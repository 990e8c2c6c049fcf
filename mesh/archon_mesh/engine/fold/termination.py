"""Folds the events that end tasks and runs."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine import events as ev
from archon_mesh.engine.fold.budget import settle
from archon_mesh.engine.fold.human_input import withdraw
from archon_mesh.engine.fold.plan import alignment_closed, step_ended, step_unneeded
from archon_mesh.engine.fold.plan import planned as plan_changed
from archon_mesh.engine.plan_progress import is_over, plan_failure
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import APPROVAL_REJECTED, NOT_NEEDED, PLAN_FAILED, QUESTION_TIMED_OUT, Failure, TaskState

_CODES: Final = {
    "RUN_TIMEOUT": "DEADLINE_EXCEEDED",
    "PAUSE_EXPIRED": "DEADLINE_EXCEEDED",
    "TOO_MANY_EVENTS": "RESOURCE_EXHAUSTED",
    "RUN_TOO_LARGE": "RESOURCE_EXHAUSTED",
    "BUDGET_EXHAUSTED": "RESOURCE_EXHAUSTED",
    PLAN_FAILED: "FAILED_PRECONDITION",
    APPROVAL_REJECTED: "FAILED_PRECONDITION",
    QUESTION_TIMED_OUT: "DEADLINE_EXCEEDED",
}
"""The codes of the causes, for journals of earlier revisions, which do not have the failure."""


def result_received(run: RunState, event: ev.ResultReceived, time: float) -> None:
    task = run.tasks[event.task_id]
    was_held = task.held is not None  # then the attempt was settled when it ended
    if event.failure is not None:
        run.remember(event.failure)
    _end_task(run, task, event.state, event.failure, time)
    task.result_seq, task.payload, task.winner = run.last_seq, event.payload, event.winner
    if not event.attempt:
        task.role = event.role  # of a result that was taken over
    run.answer_tasks[run.last_seq] = event.task_id
    if not was_held:
        settle(run, task, event.spent)
    if event.stores_turn and task.conversation_version is not None:
        run.conversation_versions[task.role] = task.conversation_version + 1
    if task.parent:
        return
    if event.state is TaskState.COMPLETED:
        run.incomplete -= 1
        for task_id in task.successors:
            run.tasks[task_id].wait_for_less(time)
    if task.align:
        return  # whatever has come of it, the plan goes on
    if run.plan is not None:
        _end_task_of_plan(run, task, time, event.confidence)
    elif event.state is not TaskState.COMPLETED:
        _begin_ending(run, TaskState.FAILED, event.failure, time)
    elif not run.incomplete:
        _begin_ending(run, TaskState.COMPLETED, None, time)


def planned(run: RunState, event: ev.Planned, time: float) -> None:
    plan_changed(run, event, time)
    if is_over(run):
        _begin_ending(run, TaskState.COMPLETED, None, time)


def _end_task_of_plan(run: RunState, task: Task, time: float, confidence: float) -> None:
    """A step that fails is the plan's to judge; without its planner's plan or synthesis, the run fails."""
    if task.step_id:
        step_ended(run, task, time, confidence)
    elif task.state is not TaskState.COMPLETED:
        _begin_ending(run, TaskState.FAILED, task.failure, time)
        return
    if is_over(run):
        _begin_ending(run, TaskState.COMPLETED, None, time)


def discarded(run: RunState, event: ev.Discarded, time: float) -> None:
    _note_spent(run, event)
    task = run.current(event.task_id, event.attempt)
    if task is not None:
        settle(run, task, task.reserved)
        _end_task(run, task, TaskState.CANCELED, None, time)


def _note_spent(run: RunState, event: ev.Discarded) -> None:
    """Keeps the result of an attempt that was unknown so far; a result may be discarded more than once."""
    task = run.tasks.get(event.task_id)
    if event.payload is None or task is None or event.attempt in task.discarded:
        return
    is_current = task.live and event.attempt == task.attempt
    if is_current or event.attempt in dict(task.abandoned):
        task.discarded, task.failures = (*task.discarded, event.attempt), (*task.failures, event.payload)


def task_stopping(run: RunState, event: ev.TaskStopping, time: float) -> None:
    task = run.tasks[event.task_id]
    task.stopping, task.failure = True, event.failure
    if event.failure.reason == NOT_NEEDED:
        step_unneeded(run, task)
    alignment_closed(run, task)
    withdraw(run, task, time)  # no one has to answer a question that is not needed any more


def task_ended(run: RunState, event: ev.TaskEnded, time: float) -> None:
    task = run.tasks[event.task_id]
    if task.live:
        task.abandon()
        settle(run, task, task.reserved)
    if task.held is not None and task.held.failure is None:
        task.failures = (*task.failures, task.held.payload)  # no one decided about it, but its cost was spent
    _end_task(run, task, event.state, event.failure, time)
    if task.step_id and run.plan is not None:
        step_ended(run, task, time)
        task.unneeded |= event.failure is not None and event.failure.reason == NOT_NEEDED
        is_replaced = event.failure is None or (event.state is TaskState.CANCELED and not event.failure.metadata)
        if not is_replaced and is_over(run):
            _begin_ending(run, TaskState.COMPLETED, None, time)
    elif event.state is TaskState.FAILED and not task.parent and not task.align:
        _begin_ending(run, TaskState.FAILED, event.failure, time)


def cancel_requested(run: RunState, event: ev.CancelRequested, time: float) -> None:
    if event.failure is not None:
        _begin_ending(run, TaskState.FAILED, event.failure, time)
        return
    code = _CODES.get(event.cause, "CANCELLED")
    state = TaskState.CANCELED if code == "CANCELLED" else TaskState.FAILED
    plan_failed = event.cause == PLAN_FAILED
    failure = plan_failure(run, event.reason) if plan_failed else Failure(code, event.cause, event.reason)
    _begin_ending(run, state, failure, time)


def run_ended(run: RunState, event: ev.RunEnded, time: float) -> None:
    run.state, run.failure, run.answer_seqs, run.end_time = event.state, event.failure, event.answer_seqs, time


def _end_task(run: RunState, task: Task, state: TaskState, failure: Failure | None, time: float) -> None:
    """Moves the task to its final state; without a `failure` it keeps the one it has."""
    if task.question:
        withdraw(run, task, time)
    task.held = None
    alignment_closed(run, task)
    task.live, task.stopping, task.state, task.end_time = False, False, state, time
    run.live_ids.pop(task.task_id, None)
    task.failure = failure or task.failure


def _begin_ending(run: RunState, state: TaskState, failure: Failure | None, time: float) -> None:
    if run.ending is None:
        run.ending, run.failure, run.ending_since = state, failure, time
