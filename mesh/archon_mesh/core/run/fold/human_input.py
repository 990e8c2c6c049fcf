"""Folds the events that stop and start a run's clock: questions to people, and pauses."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.fold.budget import settle
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import TaskState, quantize


def input_requested(run: RunState, event: ev.InputRequested, time: float) -> None:
    task = run.tasks[event.task_id]
    task.state = TaskState.INPUT_REQUIRED
    task.question, task.questions = event.input_id, (*task.questions, event.payload)
    run.responses.pop(event.input_id, None)  # the same question again: the earlier answer no longer counts
    if event.checkpointed:
        task.checkpoint = event.payload
    _update_clock(run, time)
    if event.sequence:
        task.applied = max(task.applied, event.sequence)
        return
    task.live = False
    run.live_ids.pop(task.task_id, None)
    settle(run, task, event.spent)


def withdraw(run: RunState, task: Task, time: float) -> None:
    """Closes the question of a task whose attempt needs no answer any more; the clock goes on if it was the last."""
    if task.question:
        task.question = ""
        _update_clock(run, time)


def input_given(run: RunState, event: ev.InputGiven, time: float) -> None:
    task = run.tasks[event.task_id]
    if task.live:
        task.answers[event.input_id] = event.payload
    task.state, task.question = TaskState.WORKING if task.live else TaskState.SUBMITTED, ""
    task.inputs = (*task.inputs, event.payload)
    run.responses[event.request_id or event.input_id] = event.digest
    _update_clock(run, time)


def paused(run: RunState, event: ev.Paused, time: float) -> None:
    run.paused = True
    _update_clock(run, time)


def resumed(run: RunState, event: ev.Resumed, time: float) -> None:
    run.paused = False
    _update_clock(run, time)


def _update_clock(run: RunState, time: float) -> None:
    """Stops the clock while a question is open or the run is paused; on restart, moves the tasks' deadlines."""
    asking = any(task.question for task in run.tasks.values())
    run.state = TaskState.INPUT_REQUIRED if asking else TaskState.WORKING
    if asking or run.paused:
        run.clock_stopped_since = run.clock_stopped_since or time
    elif run.clock_stopped_since:
        stopped_for = quantize(time - run.clock_stopped_since)
        run.clock_stopped_since, run.clock_stopped_for = 0.0, quantize(run.clock_stopped_for + stopped_for)
        for task in run.tasks.values():
            if task.deadline and not task.answered:
                task.deadline = quantize(task.deadline + stopped_for)
