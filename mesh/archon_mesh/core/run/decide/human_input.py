"""What makes a run stand still: people who are asked, and pauses. All its clocks stand meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import TaskState, quantize

if TYPE_CHECKING:
    from archon_mesh.core.run.state import RunState
    from archon_mesh.core.run.task import Task

MAX_QUESTIONS = 100
"""So many times a task may ask people."""


def question_id(task: Task, input_id: str) -> str:
    """An agent's id is unique in its task, and callers know no tasks."""
    return f"{task.task_id}/{input_id}"


def respond(run: RunState, given: inp.Respond, now: float) -> list[ev.Event]:
    """The events of an answer; none where nobody asks that, or no more."""
    task = next((one for one in run.tasks.values() if one.question and one.question == given.input_id), None)
    if task is None or run.ending is not None:
        return []
    return [
        ev.InputGiven(
            task.task_id, given.input_id, given.identity, given.request_id, given.digest, payload=given.payload
        )
    ]


def pause(run: RunState, given: inp.Pause, now: float) -> list[ev.Event]:
    """A paused run stays as it is."""
    if run.submission is None or run.paused or run.ending is not None:
        return []
    return [ev.Paused(given.identity)]


def resume(run: RunState, given: inp.Resume, now: float) -> list[ev.Event]:
    """A run that isn't paused stays as it is."""
    return [ev.Resumed(given.identity)] if run.paused and run.ending is None else []


def input_requested(run: RunState, event: ev.InputRequested, time: float) -> None:
    """The fold."""
    task = run.tasks[event.task_id]
    task.live, task.state = False, TaskState.INPUT_REQUIRED
    task.question, task.questions = event.input_id, (*task.questions, event.payload)
    run.responses.pop(event.input_id, None)  # asked again: what was said before answers it no more
    if event.checkpointed:
        task.checkpoint = event.payload
    _clock(run, time)


def input_given(run: RunState, event: ev.InputGiven, time: float) -> None:
    """The fold."""
    task = run.tasks[event.task_id]
    task.state, task.question = TaskState.SUBMITTED, ""
    task.inputs = (*task.inputs, event.payload)
    run.responses[event.request_id or event.input_id] = event.digest
    _clock(run, time)


def paused(run: RunState, event: ev.Paused, time: float) -> None:
    """The fold."""
    run.paused = True
    _clock(run, time)


def resumed(run: RunState, event: ev.Resumed, time: float) -> None:
    """The fold."""
    run.paused = False
    _clock(run, time)


def _clock(run: RunState, time: float) -> None:
    asking = any(task.question for task in run.tasks.values())
    run.state = TaskState.INPUT_REQUIRED if asking else TaskState.WORKING
    if asking or run.paused:
        run.standing_since = run.standing_since or time
        return
    stood = quantize(time - run.standing_since)
    run.standing_since, run.stood = 0.0, quantize(run.stood + stood)
    for task in run.tasks.values():
        if task.deadline and not task.answered:
            task.deadline = quantize(task.deadline + stood)
