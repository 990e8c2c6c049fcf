"""How tasks and runs come to their end: nobody's work goes on, and the last event is the last."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Failure, TaskState


def stop(run: RunState, task: Task, failure: Failure, stopped: set[str] | None = None) -> list[ev.Event]:
    """Ends a delegated task and whatever came of it before its own answer is there: what is under way is told to stop,
    the rest is over at once. `stopped` gets their ids."""
    events: list[ev.Event] = []
    stopped = set() if stopped is None else stopped
    for one in [task, *run.descendants(task)]:
        if one.answered or one.task_id in stopped:
            continue
        stopped.add(one.task_id)
        if one.live:
            events.append(ev.TaskStopping(one.task_id, one.role, one.attempt, failure))
        else:
            events.append(ev.TaskEnded(one.task_id, one.role, one.attempt, TaskState.CANCELED, failure))
    return events


def orphans(run: RunState, task: Task) -> list[ev.Event]:
    """The task has ended: nobody needs what it still had others do."""
    if not task.children:
        return []
    failure = Failure("CANCELLED", "CANCELLED", f"the task of {task.role} that delegated it has ended")
    stopped: set[str] = set()
    return [event for child in task.children.values() for event in stop(run, run.tasks[child], failure, stopped)]


def then_end(
    run: RunState,
    happened: list[ev.Event],
    closed: set[str],
    state: TaskState | None = None,
    failure: Failure | None = None,
) -> list[ev.Event]:
    """`happened`, and where no attempt but those of `closed` is live any more, the run's end after it: every task
    that has no end yet is cancelled first. What the run was ending as already goes before `state`."""
    if any(task.task_id not in closed for task in run.live_tasks()):
        return happened
    if run.ending is not None:
        state, failure = run.ending, run.failure
    assert state is not None
    said = {event.task_id for event in happened if isinstance(event, (ev.ResultReceived, ev.TaskEnded, ev.Discarded))}
    cancelled = [
        ev.TaskEnded(task.task_id, task.role, task.attempt, TaskState.CANCELED, None)
        for task in run.tasks.values()
        if not task.ended and task.task_id not in said
    ]
    answers = _answers(run, happened) if state is TaskState.COMPLETED else ()
    return [*happened, *cancelled, ev.RunEnded(state, failure, answers)]


def _answers(run: RunState, happened: list[ev.Event]) -> tuple[int, ...]:
    """The events that hold the answers of the roles that nobody depends on."""
    fresh = {
        event.task_id: seq
        for seq, event in enumerate(happened, run.last_seq + 1)
        if isinstance(event, ev.ResultReceived)
    }
    return tuple(fresh.get(sink.task_id, sink.result_seq) for sink in run.sinks())
