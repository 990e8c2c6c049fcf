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


async def load_linked_run(journal: Journal, run_id: str) -> tuple[RunState, bytes]:
    """Returns the state of a run, as `load_run` does, and the link of its last step, empty if that has none."""
    events, link = await _load(journal, run_id)
    return fold_journal(events, run_id), link


async def load_run_since(journal: Journal, run_id: str, seq: int) -> tuple[RunState, bytes, set[Effect]]:
    """Returns the state of a run, the link of its last step, and the effects that its events after `seq` opened."""
    events, link = await _load(journal, run_id)
    before = open_effects(fold_journal(events[:seq], run_id))
    state = fold_journal(events, run_id)
    return state, link, open_effects(state) - before


async def load_events(journal: Journal, run_id: str) -> list[run_pb2.RunEvent]:
    """Returns the events of a run, empty if the journal has none of it. Raises DataLoss if they cannot be read."""
    return (await _load(journal, run_id))[0]


async def _load(journal: Journal, run_id: str) -> tuple[list[run_pb2.RunEvent], bytes]:
    events: list[run_pb2.RunEvent] = []
    last_seq, link = 0, b""
    while steps := await journal.steps(run_id, last_seq):
        for step in steps:
            events += events_of(step.data, run_id)
        link = steps[-1].link
        last_seq = steps[-1].last_seq  # not the last event's: a damaged number would have the same steps read for ever
    return events, link


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
