"""Loads the state of a run from its journal."""

from __future__ import annotations

from collections.abc import Iterable

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_mesh.engine import Effect, RunState, apply, open_effects
from archon_services.orchestrator.convert import event_from_proto, event_time, events_of
from archon_services.orchestrator.journal import Journal


async def load_run(journal: Journal, run_id: str) -> RunState:
    """Returns the state of a run, empty if the journal has no such run. Raises DataLoss if its events cannot be
    read."""
    return fold_journal(await load_events(journal, run_id), run_id)


async def load_run_since(journal: Journal, run_id: str, seq: int) -> tuple[RunState, set[Effect]]:
    """Returns the state of a run, and the effects that its events after `seq` opened."""
    events = await load_events(journal, run_id)
    before = open_effects(fold_journal(events[:seq], run_id))
    state = fold_journal(events, run_id)
    return state, open_effects(state) - before


async def load_events(journal: Journal, run_id: str) -> list[run_pb2.RunEvent]:
    """Returns the events of a run, empty if the journal has none of it. Raises DataLoss if they cannot be read."""
    events: list[run_pb2.RunEvent] = []
    last_seq = 0
    while steps := await journal.steps(run_id, last_seq):
        for step in steps:
            events += events_of(step.data, run_id)
        last_seq = steps[-1].last_seq  # not the last event's: a damaged number would have the same steps read for ever
    return events


def fold_journal(events: Iterable[run_pb2.RunEvent], run_id: str = "") -> RunState:
    """Returns the state after these events, from the first one on. Raises DataLoss if one is missing, cannot be read or
    contradicts those before it."""
    run = RunState()
    for event in events:
        try:
            if event.seq != run.last_seq + 1:
                raise DataLoss(f"event {run.last_seq + 1} is missing: got {event.seq}")
            apply(run, event_from_proto(event), event_time(event))
        except Exception as error:
            reason = error.message if isinstance(error, DataLoss) else f"{type(error).__name__} in event {event.seq}"
            metadata = {"run_id": run_id or event.run_id}
            raise DataLoss(f"run {run_id or event.run_id}: {reason}", metadata=metadata) from error
    return run
