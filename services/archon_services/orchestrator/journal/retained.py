"""Ended runs whose details retention decides about, and marks of runs by people."""

from __future__ import annotations

from typing import Final, Protocol

from archon.errors import ResourceExhausted, RunExpired
from archon_mesh.core.value import value

MAX_MARKS: Final = 1_000
"""Marks of one run."""


@value
class MarkRow:
    """A person's mark of a run; `time` is in wall seconds."""

    identity: str
    reason: str
    time: float


@value
class DetailedRun:
    """An ended run whose events and recorded calls are kept. `marked` says whether a person marked it."""

    run_id: str
    tenant: str
    state: int
    ended_at: float
    marked: bool


class RetentionStore(Protocol):
    """The part of a journal that keeps marks, and lists the runs that retention decides about. Raises the errors of the
    journal."""

    async def detailed_runs(
        self, ended_before: float, after: tuple[float, str], limit: int, *, revision: int = 1
    ) -> list[DetailedRun]:
        """Returns the runs of `compactable` in the order of (ended_at, run_id), from the first above `after` on."""
        ...

    async def mark(self, run_id: str, mark: MarkRow) -> None:
        """Stores a mark, durable on return, in place of an earlier one by the same identity. Raises ResourceExhausted
        if the run has MAX_MARKS marks of others. The mark is deleted with its run."""
        ...

    async def unmark(self, run_id: str) -> int:
        """Deletes all marks of a run, durable on return. Returns their number."""
        ...

    async def marks(self, run_id: str) -> list[MarkRow]:
        """Returns the marks of a run, oldest first."""
        ...


def too_many_marks(run_id: str) -> ResourceExhausted:
    """Returns the error about a run that has as many marks as it can."""
    return ResourceExhausted(
        f"run {run_id} has {MAX_MARKS:,} marks, and takes no more",
        metadata={"run_id": run_id, "limit": str(MAX_MARKS)},
    )


def details_removed(run_id: str) -> RunExpired:
    """Returns the error about a run without events, recorded calls and steps."""
    return RunExpired(f"the details of run {run_id} were removed by retention", metadata={"run_id": run_id})
