"""Decides about due times: timeouts of runs, delegated tasks and steps, and the end of the grace after a cancel."""

from __future__ import annotations

from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.human_input import question_expired
from archon_mesh.engine.decide.task_end import fail
from archon_mesh.engine.decide.termination import ending, stop, then_end
from archon_mesh.engine.effects import CANCEL_GRACE
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, TaskState


def tick(run: RunState, tick: inp.Tick, now: float) -> list[ev.Event]:
    """The events of everything that is due at `now` (wall seconds). While the run's clock is stopped, only the end of
    its pause and the times of questions can be."""
    if run.ended or run.submission is None:
        return []
    if run.ending is not None:
        if now < run.ending_since + CANCEL_GRACE:
            return []
        return then_end(run, [], {task.task_id for task in run.live_tasks()})
    if run.clock_stopped_since:
        if run.pause_deadline and now >= run.pause_deadline:
            return _pause_expired(run)
        return question_expired(run, now)
    if now < run.deadline:
        return _stop_expired(run, now)
    failure = run_timeout(run, now)
    return then_end(run, [ending(failure)], set(), TaskState.FAILED, failure)


def run_timeout(run: RunState, now: float) -> Failure:
    """The failure of a run that did not end by its deadline. `now` is in wall seconds."""
    assert run.submission is not None
    reason = f"the run did not end within {run.submission.timeout:g} s"
    spent = now - run.create_time - run.clock_stopped_for
    metadata = (("budget", "time"), ("limit", f"{run.submission.timeout:g}"), ("spent", f"{spent:.3f}"))
    return Failure("DEADLINE_EXCEEDED", "RUN_TIMEOUT", reason, metadata)


def _pause_expired(run: RunState) -> list[ev.Event]:
    assert run.submission is not None
    waited = "was paused" if run.paused else "waited for an answer of a person"
    reason = f"the run {waited} for {run.submission.pause_timeout:g} s"
    metadata = (("limit", f"{run.submission.pause_timeout:g}"),)
    failure = Failure("DEADLINE_EXCEEDED", "PAUSE_EXPIRED", reason, metadata)
    return then_end(run, [ending(failure)], set(), TaskState.FAILED, failure)


def _stop_expired(run: RunState, now: float) -> list[ev.Event]:
    """Stops the delegated tasks whose deadline has passed. If there is none, fails the first such step of the plan; the
    next one follows with the next tick, since it is decided on the state after this one."""
    events: list[ev.Event] = []
    stopped: set[str] = set()
    steps: list[Task] = []
    for task in run.tasks.values():
        if not task.deadline or now < task.deadline or task.answered or task.task_id in stopped:
            continue
        if task.parent:
            events += stop(run, task, task_timeout(task), stopped)
        else:
            steps.append(task)
    if steps and not events:
        return fail(run, steps[0], [], task_timeout(steps[0]))
    return events


def task_timeout(task: Task) -> Failure:
    """The failure of a delegated task, or of a step of a plan, that did not end by its deadline."""
    if task.parent:
        message = f"{task.role} did not answer within {task.timeout:g} s"
        return Failure("DEADLINE_EXCEEDED", "DELEGATION_TIMEOUT", message, (("role", task.role),))
    message = f"{task.label} did not end within {task.timeout:g} s"
    metadata = (("role", task.role), ("step_id", task.step_id))
    return Failure("DEADLINE_EXCEEDED", "STEP_TIMEOUT", message, metadata, retry=int(RetryAdvice.NEVER))
