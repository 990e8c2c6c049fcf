"""Owners and commands of the journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from archon_services.common import machine
from archon_services.common.audit_entry import AuditRow
from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.rows import RunRow


class MemoryOwners:
    """The Owners part of MemoryJournal."""

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self._rows: dict[str, RunRow] = {}
        self._open: dict[str, None] = {}
        """Runs that have not ended, oldest first: loops look through these, however many runs have ended."""

        self._living: dict[str, OwnerRow] = {}
        self._commands: dict[int, CommandRow] = {}
        self._next_command = 1
        self._claimed_at: dict[str, int] = {}
        """The last event of each run at its last claim."""

    def listen(self, on_command: Callable[[str], None]) -> None:
        pass

    async def now(self) -> float:
        return machine.wall_time()

    async def enter(self, owner: OwnerRow) -> None:
        if not self.shared:
            self._living.clear()
        self._living[owner.owner] = owner

    async def beat(self, owner: str, address: str) -> bool:
        row = self._living.get(owner)
        if row is None:
            return False
        self._living[owner] = replace(row, address=address, beat=row.beat + 1)
        return True

    async def live_owners(self) -> list[OwnerRow]:
        return list(self._living.values())

    async def expire(self, owner: str, beat: int) -> bool:
        row = self._living.get(owner)
        if row is not None and row.beat != beat:
            return False
        self._living.pop(owner, None)
        return True

    async def leave(self, owner: str) -> None:
        self._living.pop(owner, None)
        for run_id in self._open:
            if self._rows[run_id].owner == owner:
                self._rows[run_id] = replace(self._rows[run_id], owner="")

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        row = self._rows.get(run_id)
        if row is None or row.ended_at or (row.owner != owner and row.owner in self._living):
            return None
        released = not row.owner
        stalled = row.stalled + (not released) if self._claimed_at.get(run_id) == row.last_seq else 0
        self._claimed_at[run_id] = row.last_seq
        self._rows[run_id] = claimed = replace(row, owner=owner, epoch=row.epoch + 1, stalled=stalled)
        return replace(claimed, released=released)

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        free = [
            row.run_id
            for row in map(self._rows.__getitem__, self._open)
            if row.owner not in self._living and row.revision <= revision
        ]
        for run_id in free[:limit]:
            self._rows[run_id] = replace(self._rows[run_id], revision=revision)
        return [row for run_id in free[:limit] if (row := await self.claim(run_id, owner)) is not None]

    async def newer_runs(self, revision: int, limit: int) -> list[str]:
        rows = map(self._rows.__getitem__, self._open)
        return [row.run_id for row in rows if row.owner not in self._living and row.revision > revision][:limit]

    async def open_runs(self, owner: str = "") -> list[str]:
        return [run_id for run_id in self._open if owner in ("", self._rows[run_id].owner)]

    async def post(self, run_id: str, data: bytes, audit: AuditRow | None = None) -> int:
        row_id = self._next_command
        self._commands[row_id] = CommandRow(row_id, run_id, data)
        self._next_command += 1
        return row_id

    async def is_posted(self, row_id: int) -> bool:
        return row_id in self._commands

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        rows = (row for row in self._commands.values() if self._owner_of(row.run_id) == owner)
        return [row for row, _ in zip(rows, range(limit), strict=False)]

    async def drop(self, row_ids: Sequence[int]) -> None:
        for row_id in row_ids:
            self._commands.pop(row_id, None)

    def _owner_of(self, run_id: str) -> str:
        row = self._rows.get(run_id)
        return row.owner if row is not None else ""
