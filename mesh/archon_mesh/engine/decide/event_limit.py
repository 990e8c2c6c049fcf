"""The limits of a run's journal, in events and in bytes."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.termination import ending, then_end
from archon_mesh.engine.state import RunState
from archon_mesh.engine.types import Failure, TaskState

MAX_EVENTS = 50_000
"""The most events of a run."""

RESERVED_EVENTS = 200
"""How many of them are reserved for ending the run."""


def journal_full(run: RunState, full: inp.JournalFull, now: float) -> list[ev.Event]:
    """Ends the run, since its journal has more bytes than it may have."""
    if run.ended or run.ending is not None or run.submission is None:
        return []
    reason = f"the journal of the run has {full.size:,} bytes, at most {full.limit:,} are allowed"
    metadata = (("limit", str(full.limit)), ("size", str(full.size)))
    failure = Failure("RESOURCE_EXHAUSTED", "RUN_TOO_LARGE", reason, metadata)
    return then_end(run, [ending(failure)], set(), TaskState.FAILED, failure)


def limit_events(run: RunState, decided: list[ev.Event]) -> list[ev.Event]:
    """The decided events; if they exceed the limit, followed by the end of the run and without new dispatches."""
    if not decided or run.ending is not None or run.last_seq + len(decided) <= MAX_EVENTS - RESERVED_EVENTS:
        return decided
    if isinstance(decided[-1], ev.RunEnded) or isinstance(decided[0], (ev.ResultReceived, ev.TaskEnded)):
        return decided  # the run ends with them, or the next decision ends it
    reason = f"the run has reached {MAX_EVENTS} events"
    failure = Failure("RESOURCE_EXHAUSTED", "TOO_MANY_EVENTS", reason)
    closed = {event.task_id for event in decided if isinstance(event, (ev.Lost, ev.Rejected))}
    kept = [event for event in decided if not isinstance(event, ev.Dispatched)]
    return then_end(run, [*kept, ending(failure)], closed, TaskState.FAILED, failure)
