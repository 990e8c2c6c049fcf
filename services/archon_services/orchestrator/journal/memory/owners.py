"""Owners and commands of the journal in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.rows import RunRow


class MemoryOwners:
    """See Owners."""

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self._rows: dict[str, RunRow] = {}
        self._living: dict[str, OwnerRow] = {}
        self._commands: dict[int, CommandRow] = {}
        self._next_command = 1
        self._claimed_at: dict[str, int] = {}
        """The last event of a run when it was claimed last."""

    def listen(self, heard: Callable[[str], None]) -> None:
        """See Owners. Nobody else posts here."""

    async def now(self) -> float:
        """See Owners."""
        return time.time()

    async def enter(self, one: OwnerRow) -> None:
        """See Owners."""
        if not self.shared:
            self._living.clear()
        self._living[one.owner] = one

    async def beat(self, owner: str, address: str) -> bool:
        """See Owners."""
        row = self._living.get(owner)
        if row is None:
            return False
        self._living[owner] = replace(row, address=address, beat=row.beat + 1)
        return True

    async def living(self) -> list[OwnerRow]:
        """See Owners."""
        return list(self._living.values())

    async def expire(self, owner: str, beat: int) -> bool:
        """See Owners."""
        row = self._living.get(owner)
        if row is not None and row.beat != beat:
            return False
        self._living.pop(owner, None)
        return True

    async def leave(self, owner: str) -> None:
        """See Owners."""
        self._living.pop(owner, None)

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        """See Owners."""
        row = self._rows.get(run_id)
        if row is None or row.ended_at or (row.owner != owner and row.owner in self._living):
            return None
        stalled = row.stalled + 1 if self._claimed_at.get(run_id) == row.last_seq else 0
        self._claimed_at[run_id] = row.last_seq
        self._rows[run_id] = claimed = replace(row, owner=owner, epoch=row.epoch + 1, stalled=stalled)
        return claimed

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        """See Owners."""
        free = [
            row.run_id
            for row in self._rows.values()
            if not row.ended_at and row.owner not in self._living and row.revision <= revision
        ]
        return [row for run_id in free[:limit] if (row := await self.claim(run_id, owner)) is not None]

    async def open_runs(self, owner: str = "") -> list[str]:
        """See Owners."""
        return [row.run_id for row in self._rows.values() if not row.ended_at and owner in ("", row.owner)]

    async def post(self, run_id: str, data: bytes) -> None:
        """See Owners."""
        self._commands[self._next_command] = CommandRow(self._next_command, run_id, data)
        self._next_command += 1

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        """See Owners."""
        found = (row for row in self._commands.values() if self._owner_of(row.run_id) == owner)
        return [row for row, _ in zip(found, range(limit), strict=False)]

    async def drop(self, row_ids: Sequence[int]) -> None:
        """See Owners."""
        for row_id in row_ids:
            self._commands.pop(row_id, None)

    def _owner_of(self, run_id: str) -> str:
        row = self._rows.get(run_id)
        return row.owner if row is not None else ""
