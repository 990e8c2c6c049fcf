"""The limit of events per run."""

from __future__ import annotations

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.decide.termination import then_end
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.types import Failure, TaskState

MAX_EVENTS = 50_000
"""The most events of a run."""

RESERVED_EVENTS = 200
"""How many of them are reserved for ending the run."""


def limit_events(run: RunState, decided: list[ev.Event]) -> list[ev.Event]:
    """The decided events; if they exceed the limit, followed by the end of the run and without new dispatches."""
    if not decided or run.ending is not None or run.last_seq + len(decided) <= MAX_EVENTS - RESERVED_EVENTS:
        return decided
    if isinstance(decided[-1], ev.RunEnded) or isinstance(decided[0], (ev.ResultReceived, ev.TaskEnded)):
        return decided  # the run ends with them, or the next decision ends it
    reason = f"the run has reached {MAX_EVENTS} events"
    failure = Failure("RESOURCE_EXHAUSTED", "TOO_MANY_EVENTS", reason)
    cancel = ev.CancelRequested("", reason, "TOO_MANY_EVENTS")
    closed = {event.task_id for event in decided if isinstance(event, (ev.Lost, ev.Rejected))}
    kept = [event for event in decided if not isinstance(event, ev.Dispatched)]
    return then_end(run, [*kept, cancel], closed, TaskState.FAILED, failure)
