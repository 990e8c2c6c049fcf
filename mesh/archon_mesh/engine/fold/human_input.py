"""Folds the events that stop and start a run's clock: questions to people, and pauses."""

from __future__ import annotations

from archon_mesh.core.people import (
    Decision,
    QuestionKind,
    QuestionState,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine import events as ev
from archon_mesh.engine.fold.budget import settle
from archon_mesh.engine.fold.plan import attempt_failed
from archon_mesh.engine.question import ClosedQuestion, OpenQuestion
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import TaskState, quantize


def input_requested(run: RunState, event: ev.InputRequested, time: float) -> None:
    task = run.tasks[event.task_id]
    task.questions = (*task.questions, event.payload)
    if event.checkpointed:
        task.checkpoint = event.payload
    _open(run, task, event.input_id, event.kind, event.terms, time)
    if event.sequence:
        task.applied = max(task.applied, event.sequence)
        return
    _end_attempt(run, task)
    settle(run, task, event.spent)


def approval_requested(run: RunState, event: ev.ApprovalRequested, time: float) -> None:
    task = run.tasks[event.task_id]
    task.questions, task.held = (*task.questions, None), event
    _open(run, task, event.input_id, QuestionKind.APPROVAL, event.terms, time)
    _end_attempt(run, task)
    settle(run, task, event.spent)
    if event.failure is not None:
        run.remember(event.failure)
        attempt_failed(run, task)
        task.failures = (*task.failures, event.payload)
        task.retries += 1
        run.recovered += 1


def _open(run: RunState, task: Task, input_id: str, kind: QuestionKind, terms: QuestionTerms, time: float) -> None:
    deadline = quantize(time + terms.timeout) if terms.timeout else 0.0
    task.state, task.question = TaskState.INPUT_REQUIRED, input_id
    task.asking = OpenQuestion(input_id, QuestionKind(kind), time, terms, deadline=deadline)
    run.responses.pop(input_id, None)  # the same question again: the earlier answer no longer counts
    _update_clock(run, time)


def _end_attempt(run: RunState, task: Task) -> None:
    task.live = False
    run.live_ids.pop(task.task_id, None)


def question_timed_out(run: RunState, event: ev.QuestionTimedOut, time: float) -> None:
    task = run.tasks[event.task_id]
    asking = task.asking
    assert asking is not None
    if event.policy == TimeoutPolicy.ESCALATE:
        asking.level, asking.deadline = event.level, quantize(time + asking.terms.timeout)
        return
    _close(run, task, QuestionState.TIMED_OUT, "", time)


def withdraw(run: RunState, task: Task, time: float) -> None:
    """Closes the question of a task whose attempt needs no answer any more; the clock goes on if it was the last."""
    if task.question:
        _close(run, task, QuestionState.CANCELLED, "", time)
        task.question = ""
        _update_clock(run, time)


def input_given(run: RunState, event: ev.InputGiven, time: float) -> None:
    task = run.tasks[event.task_id]
    rejected = event.decision == Decision.REJECT
    _close(run, task, QuestionState.REJECTED if rejected else QuestionState.APPROVED, event.identity, time)
    if task.live:
        task.answers[event.input_id] = event.payload
    task.state, task.question = TaskState.WORKING if task.live else TaskState.SUBMITTED, ""
    held = task.held
    if held is None:
        task.inputs = (*task.inputs, event.payload)
    elif held.breakpoint:
        task.held, task.was_held = None, True
        task.edited = event.payload if event.decision == Decision.MODIFY else None
    elif event.decision == Decision.MODIFY and held.plan is None and held.failure is None:
        task.failures = (*task.failures, held.payload)  # it is replaced, but its cost was spent
    run.responses[event.request_id or event.input_id] = event.digest
    _update_clock(run, time)


def _close(run: RunState, task: Task, state: QuestionState, identity: str, time: float) -> None:
    """Adds the question to the closed ones; does nothing if it was closed by its time-out already."""
    asking, task.asking = task.asking, None
    if asking is not None:
        rule, asked = asking.terms.rule, asking.asked
        closed = ClosedQuestion(asking.input_id, task.task_id, task.role, state, identity, rule, asked, time)
        run.closed_questions = (*run.closed_questions, closed)


def breakpoints_set(run: RunState, event: ev.BreakpointsSet, time: float) -> None:
    run.breakpoints = event.breakpoints


def paused(run: RunState, event: ev.Paused, time: float) -> None:
    run.paused = True
    _update_clock(run, time)


def resumed(run: RunState, event: ev.Resumed, time: float) -> None:
    run.paused = False
    _update_clock(run, time)


def _update_clock(run: RunState, time: float) -> None:
    """Stops the clock while a question is open or the run is paused; on restart, moves the tasks' deadlines."""
    asking = any(task.question for task in run.tasks.values())
    run.at_breakpoint = asking and any(
        task.asking is not None and task.asking.terms.trigger == Trigger.BREAKPOINT for task in run.tasks.values()
    )
    run.state = TaskState.INPUT_REQUIRED if asking else TaskState.WORKING
    if asking or run.paused:
        run.clock_stopped_since = run.clock_stopped_since or time
    elif run.clock_stopped_since:
        stopped_for = quantize(time - run.clock_stopped_since)
        run.clock_stopped_since, run.clock_stopped_for = 0.0, quantize(run.clock_stopped_for + stopped_for)
        for task in run.tasks.values():
            if task.deadline and not task.answered:
                task.deadline = quantize(task.deadline + stopped_for)
