"""A run as it is debugged, from a file of `archon export` or from a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from archon.client import Client
from archon.errors import DataLoss, InvalidArgument, RunExpired
from archon.history import MemoryVersion, PublicKeys, open_run_file, verify_run
from archon.types import RunEvent, RunRecord
from archon_mesh.recorded import fetch_run
from archon_services.orchestrator.convert import events_of

NO_VERSIONS: Final[Mapping[tuple[str, int], MemoryVersion]] = {}


@dataclass(frozen=True, slots=True)
class DebuggedRun:
    """A run: its durable events in order, from number 1 on, the recorded calls of its agents in
    order, and its versions in the shared memory by role and event, as far as they are known. `source` names where it
    was read, for people."""

    run_id: str
    source: str
    events: Sequence[RunEvent]
    records: Sequence[RunRecord] = ()
    memory: Mapping[tuple[str, int], MemoryVersion] = field(default_factory=lambda: NO_VERSIONS)

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        return len(self.events)

    def event(self, seq: int) -> RunEvent:
        """Returns an event by its number, from 1 to `last_seq`."""
        return self.events[seq - 1]


def open_debugged(path: Path, keys: PublicKeys | None = None) -> DebuggedRun:
    """Reads a file of `archon export`, without a network. Raises InvalidArgument if it was changed, cut off, or is
    something else, OSError if it cannot be read."""
    file = open_run_file(path)
    history = file.history()
    report = verify_run(history.run_id, history.steps, keys, last_seq=history.last_seq, ended=history.ended)
    if not report.intact:
        raise InvalidArgument(f"{path} was changed: {report.fault}")
    try:
        events = [RunEvent(event) for step in history.steps for event in events_of(step.data, history.run_id)]
    except DataLoss as error:
        raise InvalidArgument(f"{path}: {error.message}") from None
    versions = {(version.role, version.seq): version for version in file.memory()}
    return DebuggedRun(history.run_id, str(path), _checked(events, str(path)), list(file.records()), versions)


async def fetch_debugged(client: Client, run_id: str) -> DebuggedRun:
    """Reads a run of a mesh up to its present state. Raises UnknownRun, RunExpired if its events have been deleted,
    DeadlineExceeded, and the errors of calls."""
    recorded = await fetch_run(client, run_id)
    if recorded.expired:
        raise RunExpired(f"the details of run {run_id} were removed by retention", metadata={"run_id": run_id})
    return DebuggedRun(run_id, "the mesh", _checked(recorded.events, f"run {run_id}"), recorded.records)


def _checked(events: Sequence[RunEvent], name: str) -> Sequence[RunEvent]:
    """Returns the events, which have the numbers from 1 on. Raises InvalidArgument if they have others, or there is
    none."""
    if not events:
        raise InvalidArgument(f"{name} has no events")
    for number, event in enumerate(events, 1):
        if event.seq != number:
            raise InvalidArgument(f"{name}: event {number} is missing")
    return events
