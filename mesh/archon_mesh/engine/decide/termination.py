"""How tasks and runs end: no attempt continues for nothing, and no event follows the last one."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.plan_progress import answer_task
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, TaskState


def stop(run: RunState, task: Task, failure: Failure, stopped: set[str] | None = None) -> list[ev.Event]:
    """Ends a delegated task and its descendants before they have answered: live attempts are ordered to stop, the
    other tasks end at once. Adds the ids to `stopped` and skips those that it contains."""
    events: list[ev.Event] = []
    stopped = set() if stopped is None else stopped
    for member in [task, *run.descendants(task)]:
        if member.answered or member.task_id in stopped:
            continue
        stopped.add(member.task_id)
        if member.live:
            events.append(ev.TaskStopping(member.task_id, member.role, member.attempt, failure))
        else:
            events.append(ev.TaskEnded(member.task_id, member.role, member.attempt, TaskState.CANCELED, failure))
    return events


def orphans(run: RunState, task: Task) -> list[ev.Event]:
    """Stops the tasks that an ended task had delegated."""
    if not task.children:
        return []
    failure = Failure("CANCELLED", "CANCELLED", f"the delegating task of {task.role} has ended")
    stopped: set[str] = set()
    return [event for child in task.children.values() for event in stop(run, run.tasks[child], failure, stopped)]


def ending(failure: Failure, identity: str = "") -> ev.CancelRequested:
    """Returns the event by which the run begins to end with a failure. `identity` is the person's who decided so."""
    return ev.CancelRequested(identity, failure.message, failure.reason, failure)


def then_end(
    run: RunState,
    decided: list[ev.Event],
    closed: set[str],
    state: TaskState | None = None,
    failure: Failure | None = None,
) -> list[ev.Event]:
    """The decided events and, if no attempt is live any more except of the tasks in `closed`, the end of the run.

    Tasks that have not ended are cancelled before it. A state that the run is ending with already overrides `state`.
    """
    if any(task.task_id not in closed for task in run.live_tasks()):
        return decided
    if run.ending is not None:
        state, failure = run.ending, run.failure
    assert state is not None
    ended = {event.task_id for event in decided if isinstance(event, (ev.ResultReceived, ev.TaskEnded, ev.Discarded))}
    cancelled = [
        ev.TaskEnded(task.task_id, task.role, task.attempt, TaskState.CANCELED, None)
        for task in run.tasks.values()
        if not task.ended and task.task_id not in ended
    ]
    cancelled += [
        ev.TaskEnded(event.task_id, event.role, 0, TaskState.CANCELED, None)
        for event in decided
        if isinstance(event, ev.TaskCreated) and event.task_id not in ended
    ]
    answers = _answers(run, decided) if state is TaskState.COMPLETED else ()
    return [*decided, *cancelled, ev.RunEnded(state, failure, answers)]


def _answers(run: RunState, decided: list[ev.Event]) -> tuple[int, ...]:
    """The events with the answers of the sinks, or of the one task that answers for a plan; those among `decided`
    included."""
    new = {
        event.task_id: seq
        for seq, event in enumerate(decided, run.last_seq + 1)
        if isinstance(event, ev.ResultReceived)
    }
    sinks = run.sinks() if run.plan is None else [answer_task(run, decided)]
    return tuple(new.get(sink.task_id, sink.result_seq) for sink in sinks)
