"""Folds the events of attempts that do not end their task: dispatch, checkpoint, loss, rejection, retry."""

from __future__ import annotations

from archon.failure_kinds import GIVEN_BACK, RetryAdvice
from archon_mesh.engine import events as ev
from archon_mesh.engine.fold.budget import settle
from archon_mesh.engine.fold.human_input import withdraw
from archon_mesh.engine.fold.plan import alignment_asked, attempt_failed
from archon_mesh.engine.state import RunState
from archon_mesh.engine.step_placement import hedges_of
from archon_mesh.engine.task import PublishedItem, Task
from archon_mesh.engine.types import (
    CONVERSATION_MOVED,
    DRAINING,
    NOTHING,
    PLAN_FAILED,
    RESULT_REFUSED,
    UNDECIDED,
    Failure,
    TaskState,
)


def dispatched(run: RunState, event: ev.Dispatched, time: float) -> None:
    task = run.tasks[event.task_id]
    task.attempt, task.live, task.state = event.attempt, True, TaskState.WORKING
    task.role = event.role  # another one than before if a decision has assigned the step
    run.live_ids[event.task_id] = None
    task.instance_id, task.dispatch_epoch, task.context = event.instance_id, event.epoch, event.context
    task.start_time, task.conversation_version = time, event.conversation_version
    if event.reserved is not None:
        task.reserved = event.reserved
    task.held = None
    task.breakpoints, task.ignores_breakpoints = run.breakpoints, event.ignores_breakpoints
    if task.align:
        alignment_asked(run, task)
    task.begin_attempt()
    if event.expected_seconds and event.attempt == 1:
        for copy in hedges_of(run, task):
            copy.start_after(event.expected_seconds, time)


def checkpoint_taken(run: RunState, event: ev.CheckpointTaken, time: float) -> None:
    task = run.tasks[event.task_id]
    task.checkpoint, task.applied = event.payload, max(task.applied, event.sequence)


def item_published(run: RunState, event: ev.ItemPublished, time: float) -> None:
    task = run.tasks[event.task_id]
    others = [known for known in task.items if known.item.policy != event.item.policy]
    task.items = (*others, PublishedItem(event.item, run.last_seq, time))
    run.answer_tasks[run.last_seq] = event.task_id
    task.applied = max(task.applied, event.sequence)


def lost(run: RunState, event: ev.Lost, time: float) -> None:
    task = run.tasks[event.task_id]
    task.abandon()
    _wait_again(run, task)
    task.losses += 1
    run.recovered += 1
    run.remember(event.failure)
    settle(run, task, task.reserved)  # the amount really spent is unknown


def retried(run: RunState, event: ev.Retried, time: float) -> None:
    task = run.tasks[event.task_id]
    if event.failure.reason == UNDECIDED:
        task.undecided = True
        return
    task.failed_instance = task.instance_id
    task.avoid = task.instance_id if event.failure.retry == RetryAdvice.ELSEWHERE else ""
    withdraw(run, task, time)
    _wait_again(run, task)
    task.not_before = event.not_before
    settle(run, task, event.spent)
    task.failures = (*task.failures, event.payload)
    run.remember(event.failure)
    if event.failure.reason == CONVERSATION_MOVED:
        task.version_conflicts += 1
        if not task.questions:  # starts over with the new conversation, unless people would be asked again
            task.checkpoint = None
        return
    attempt_failed(run, task)
    if event.failure.reason in (PLAN_FAILED, RESULT_REFUSED):
        task.faults = tuple(description for _, description in event.failure.violations)
        task.checkpoint = None
    task.retries += 1
    run.recovered += 1


def rejected(run: RunState, event: ev.Rejected, time: float) -> None:
    task = run.tasks[event.task_id]
    if event.failure.reason == DRAINING:
        task.returns += 1
    else:
        task.rejects += 1
    if is_given_back(event.failure):
        task.abandon()
        settle(run, task, task.reserved)  # the amount really spent is unknown
    _wait_again(run, task)
    task.reserved = NOTHING
    task.not_before = event.not_before


def _wait_again(run: RunState, task: Task) -> None:
    run.live_ids.pop(task.task_id, None)
    task.wait_again()


def is_given_back(failure: Failure) -> bool:
    """Whether the attempt of the failure had begun when its instance gave it back."""
    return failure.reason == DRAINING and GIVEN_BACK in dict(failure.metadata)
