"""Marks of the journal in memory."""

from __future__ import annotations

from archon_services.orchestrator.journal.memory.owners import MemoryOwners
from archon_services.orchestrator.journal.retained import MAX_MARKS, MarkRow, too_many_marks


class MemoryMarks(MemoryOwners):
    """The marks of MemoryJournal."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._marks: dict[str, dict[str, MarkRow]] = {}

    async def mark(self, run_id: str, mark: MarkRow) -> None:
        marks = self._marks.setdefault(run_id, {})
        if mark.identity not in marks and len(marks) >= MAX_MARKS:
            raise too_many_marks(run_id)
        marks[mark.identity] = mark

    async def unmark(self, run_id: str) -> int:
        return len(self._marks.pop(run_id, {}))

    async def marks(self, run_id: str) -> list[MarkRow]:
        return sorted(self._marks.get(run_id, {}).values(), key=lambda mark: (mark.time, mark.identity))
