"""Decides about what stops a run's clock: questions to people, and pauses."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.task_end import fail
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Failure

MAX_QUESTIONS = 100
"""The most questions that one task can ask people."""


def question_id(task: Task, input_id: str) -> str:
    """The id of a question in the run: the agent's id is unique only within its task."""
    return f"{task.task_id}/{input_id}"


def ask(run: RunState, task: Task, request: inp.AskIn) -> list[ev.Event]:
    """A question of an attempt that continues. Fails the task if it asks too much, or twice at a time."""
    failure = (
        Failure("FAILED_PRECONDITION", "INVALID_ARGUMENT", "a task can ask one question at a time")
        if task.question
        else refusal(task, request.input_id)
    )
    if failure is not None:
        return fail(run, task, [], failure)
    asked = question_id(task, request.input_id)
    return [ev.InputRequested(task.task_id, task.attempt, task.role, asked, request.payload, sequence=request.sequence)]


def refusal(task: Task, input_id: str) -> Failure | None:
    """Why the task cannot ask a question with this id of the agent; None if it can."""
    if input_id and len(task.questions) < MAX_QUESTIONS:
        return None
    too_many = f"a task can ask people at most {MAX_QUESTIONS} questions"
    message = too_many if input_id else "a question to a person needs an input_id"
    return Failure("FAILED_PRECONDITION", "INVALID_ARGUMENT", message)


def respond(run: RunState, response: inp.Respond, now: float) -> list[ev.Event]:
    """Accepts the answer to an open question; none if the question is not open."""
    open_questions = (task for task in run.tasks.values() if task.question and task.question == response.input_id)
    task = next(open_questions, None)
    if task is None or run.ending is not None:
        return []
    return [
        ev.InputGiven(
            task.task_id,
            response.input_id,
            response.identity,
            response.request_id,
            response.digest,
            payload=response.payload,
        )
    ]


def pause(run: RunState, request: inp.Pause, now: float) -> list[ev.Event]:
    """Pauses the run; no event if it is paused already, or ending."""
    if run.submission is None or run.paused or run.ending is not None:
        return []
    return [ev.Paused(request.identity)]


def resume(run: RunState, request: inp.Resume, now: float) -> list[ev.Event]:
    """Resumes the run; no event if it is not paused, or ending."""
    return [ev.Resumed(request.identity)] if run.paused and run.ending is None else []
