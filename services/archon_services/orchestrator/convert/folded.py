"""A journal folded."""

from __future__ import annotations

from collections.abc import Iterable

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_mesh.core.run import RunState, apply
from archon_services.orchestrator.convert.read import event_from_proto, seconds


def fold_journal(events: Iterable[run_pb2.RunEvent], run_id: str = "") -> RunState:
    """The state after these events, from the first on. Raises DataLoss where they make no run: one that can't be read,
    is missing, or says what can't be true after those before it."""
    run = RunState()
    for event in events:
        try:
            if event.seq != run.last_seq + 1:
                raise DataLoss(f"event {run.last_seq + 1} is missing, {event.seq} stands in its place")
            apply(run, event_from_proto(event), seconds(event))
        except Exception as error:
            why = error.message if isinstance(error, DataLoss) else f"{type(error).__name__} in event {event.seq}"
            raise DataLoss(
                f"run {run_id or event.run_id}: {why}", metadata={"run_id": run_id or event.run_id}
            ) from error
    return run
