"""What an attempt's result means."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.human_input import MAX_QUESTIONS, question_id
from archon_mesh.core.run.decide.recovery import CONVERSATION_MOVED, Kind, kind_of, next_try, over_budget
from archon_mesh.core.run.decide.termination import orphans, then_end
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Failure, TaskState


def result(run: RunState, given: inp.ResultIn, now: float) -> list[ev.Event]:
    """An attempt has ended: its task, and perhaps the run with it; or a person is asked."""
    if run.ended or run.submission is None:
        return []
    known = run.tasks.get(given.task_id)
    if known is not None and known.result_seq and known.attempt == given.attempt:
        return []  # sent again: it counted the first time
    asked_or_failed = known is not None and (known.questions or known.retries or known.outdated)
    if known is not None and asked_or_failed and not known.live and known.attempt == given.attempt:
        return []  # so did a question, or what is tried again
    task = run.current(given.task_id, given.attempt)
    recorded: list[ev.Event] = [ev.Recorded(given.task_id, given.attempt, given.records)] if given.records else []
    if task is None:
        return [*recorded, ev.Discarded(given.task_id, given.attempt, "ABORTED")]
    if run.ending is not None:
        return then_end(run, [*recorded, _after_stop(run, task, given)], {task.task_id})
    if task.stopping:
        return [*recorded, _after_stop(run, task, given)]
    if given.state is TaskState.INPUT_REQUIRED and given.input_id and len(task.questions) < MAX_QUESTIONS:
        asked = ev.InputRequested(
            task.task_id,
            task.attempt,
            task.role,
            question_id(task, given.input_id),
            given.payload,
            given.spent,
            given.checkpointed,
        )
        return [*recorded, asked]
    state, failure = _final_state(given)
    if state is TaskState.FAILED and failure is not None and (due := _again(run, task, failure, now)) is not None:
        retried = ev.Retried(task.task_id, task.attempt, task.role, failure, due, given.spent, given.payload)
        return [*recorded, retried]
    remembers = given.remembers and state is TaskState.COMPLETED and task.conversation is not None
    if remembers and given.overlong:
        failure = Failure("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE", f"{task.role} adds too much to its conversation")
        state, remembers = TaskState.FAILED, False
    if remembers and _outdated(run, task, given):
        failure = _moved(run, task)
        if (due := next_try(Kind.OUTDATED, task.outdated + 1, None, now)) is not None:
            retried = ev.Retried(task.task_id, task.attempt, task.role, failure, due, given.spent, given.payload)
            return [*recorded, retried]
        state, remembers = TaskState.FAILED, False
    publish = given.publish and state is TaskState.COMPLETED
    result = ev.ResultReceived(
        task.task_id, task.attempt, task.role, state, given.payload, failure, publish, given.spent, remembers
    )
    if task.parent:
        return [*recorded, result, *orphans(run, task)]
    if state is not TaskState.COMPLETED:
        return then_end(run, [*recorded, result], {task.task_id}, TaskState.FAILED, failure)
    if any(other.state is not TaskState.COMPLETED for other in run.roots() if other is not task):
        return [*recorded, result, *orphans(run, task)]
    return then_end(run, [*recorded, result], {task.task_id}, TaskState.COMPLETED)


def _outdated(run: RunState, task: Task, given: inp.ResultIn) -> bool:
    """Whether its conversation has gone on since the attempt was given it; or it read another version than that."""
    told = task.conversation or 0
    return given.outdated or run.remembered.get(task.role, told) > told or (given.read > 0 and given.read != told)


def _moved(run: RunState, task: Task) -> Failure:
    assert run.submission is not None
    session = run.submission.session_id
    reason = f"another turn of {task.role} in session {session} was stored before this one, {task.outdated + 1} times"
    return Failure("ABORTED", CONVERSATION_MOVED, reason, (("role", task.role), ("session_id", session)))


def _again(run: RunState, task: Task, failure: Failure, now: float) -> float | None:
    """Not before when the task is to be tried again; None where it isn't."""
    if over_budget(run.recovered) is not None:
        return None
    return next_try(kind_of(failure), task.retries + 1, failure.retry_delay, now)


def _after_stop(run: RunState, task: Task, given: inp.ResultIn) -> ev.Event:
    """What an attempt that is to stop says last. That it stopped is its task's end, with what it had spent; an answer
    came too late, and nobody gets it."""
    if given.state is not TaskState.COMPLETED:
        return ev.ResultReceived(
            task.task_id,
            task.attempt,
            task.role,
            TaskState.CANCELED,
            given.payload,
            task.failure,
            spent=given.spent,
        )
    why = run.failure if run.ending is not None else task.failure
    return ev.Discarded(task.task_id, task.attempt, why.reason if why else "CANCELLED")


def _final_state(given: inp.ResultIn) -> tuple[TaskState, Failure | None]:
    """A result's state as this engine takes it: what it can't go on from is a failure that says so."""
    if given.state is TaskState.COMPLETED:
        return given.state, None
    if given.state in (TaskState.FAILED, TaskState.REJECTED):
        silent = Failure("UNKNOWN", "UNKNOWN", "the agent gave no reason")
        return given.state, given.failure or silent
    if given.state is TaskState.CANCELED:
        return TaskState.FAILED, given.failure or Failure(
            "CANCELLED", "CANCELLED", "the agent cancelled the task itself"
        )
    if given.state is TaskState.INPUT_REQUIRED:
        return TaskState.FAILED, Failure(
            "FAILED_PRECONDITION",
            "INVALID_ARGUMENT",
            f"{MAX_QUESTIONS} questions are enough" if given.input_id else "a question to a person needs an input_id",
        )
    return TaskState.FAILED, Failure(
        "UNIMPLEMENTED", "NOT_SERVED", f"a result with state {given.state.name} is not served by this orchestrator"
    )
