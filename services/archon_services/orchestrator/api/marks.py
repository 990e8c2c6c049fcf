"""Marks of runs by people: retention's rules can keep the details of marked runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon.wire import set_seconds
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.journal import Journal, MarkRow, RunRow

MAX_REASON: Final = 4_096
"""Characters of a reason."""


class RunMarks:
    """Raises Archon's errors. `now` returns wall seconds by the journal's clock."""

    def __init__(self, journal: Journal, now: Callable[[], float], audit: AuditRecord) -> None:
        self._journal = journal
        self._now = now
        self._audit = audit

    async def mark(self, row: RunRow, request: pb.MarkRunRequest) -> None:
        """Stores the caller's mark of a run, in place of an earlier one, or removes all marks of it. Raises
        InvalidArgument and the errors of the journal."""
        if len(request.reason) > MAX_REASON:
            violations = [FieldViolation("reason", f"longer than {MAX_REASON:,} characters")]
            raise InvalidArgument(f"reason: longer than {MAX_REASON:,} characters", field_violations=violations)
        if request.remove:
            if await self._journal.unmark(row.run_id):
                await self._audit.add(self._audit.row("run.unmark", run_id=row.run_id))
            return
        await self._journal.mark(row.run_id, MarkRow(context.current().identity, request.reason, self._now()))
        await self._audit.add(self._audit.row("run.mark", run_id=row.run_id))

    async def add_to(self, run: run_pb2.Run) -> None:
        """Adds the marks to a run, and whether its details were removed. Raises the errors of the journal."""
        if run.HasField("end_time"):
            row = await self._journal.run(run.run_id)
            run.details_removed = row is not None and row.compacted
        for mark in await self._journal.marks(run.run_id):
            out = run.marks.add(identity=mark.identity, reason=mark.reason)
            set_seconds(out.mark_time, mark.time)
