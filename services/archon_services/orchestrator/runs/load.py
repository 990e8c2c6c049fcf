"""From a journal to the state of a run."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import RunState
from archon_services.orchestrator.convert import fold_journal, from_journal
from archon_services.orchestrator.journal import Journal


async def load_run(journal: Journal, run_id: str) -> RunState:
    """The state of a run as its journal has it. Raises DataLoss where that can't be read."""
    events: list[run_pb2.RunEvent] = []
    while page := await journal.events(run_id, len(events)):
        events += [from_journal(run_pb2.RunEvent, data, run_id) for data in page]
    return fold_journal(events, run_id)
