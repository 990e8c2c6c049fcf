"""Owners and commands of the SQLite journal. The OS lock on its file says that no other process works on it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any

from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.rows import RunRow
from archon_services.orchestrator.journal.sqlite.append import run_row
from archon_services.orchestrator.journal.sqlite.schema import RUN_COLUMNS

_NOBODYS = "owner NOT IN (SELECT owner FROM owners)"
_CLAIM = (
    "UPDATE runs SET owner = ?, epoch = epoch + 1, claimed_seq = last_seq, "
    "stalled = CASE WHEN claimed_seq = last_seq THEN stalled + 1 ELSE 0 END WHERE ended_at = 0 AND "
)


class SqliteOwners:
    """See Owners."""

    shared = False

    async def _write(self, work: Any, *, full: bool = False) -> Any:
        raise NotImplementedError

    async def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        raise NotImplementedError

    def listen(self, heard: Callable[[str], None]) -> None:
        """See Owners. Nobody else posts here."""

    async def now(self) -> float:
        """See Owners. The store is this machine's."""
        return time.time()

    async def enter(self, one: OwnerRow) -> None:
        """See Owners."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM owners")
            db.execute("INSERT INTO owners VALUES (?, ?, ?, ?)", (one.owner, one.address, one.revision, one.beat))

        await self._write(work, full=True)

    async def beat(self, owner: str, address: str) -> bool:
        """See Owners."""
        sql = "UPDATE owners SET beat = beat + 1, address = ? WHERE owner = ?"
        changed: int = await self._write(lambda db: db.execute(sql, (address, owner)).rowcount)
        return bool(changed)

    async def living(self) -> list[OwnerRow]:
        """See Owners."""
        return [OwnerRow(*row) for row in await self._read("SELECT owner, address, revision, beat FROM owners")]

    async def expire(self, owner: str, beat: int) -> bool:
        """See Owners."""

        def work(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM owners WHERE owner = ? AND beat = ?", (owner, beat))
            return db.execute("SELECT 1 FROM owners WHERE owner = ?", (owner,)).fetchone() is None

        buried: bool = await self._write(work, full=True)
        return buried

    async def leave(self, owner: str) -> None:
        """See Owners."""
        await self._write(lambda db: db.execute("DELETE FROM owners WHERE owner = ?", (owner,)))

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        """See Owners."""
        sql = f"{_CLAIM} run_id = ? AND (owner = ? OR {_NOBODYS}) RETURNING {RUN_COLUMNS}"
        found = await self._write(lambda db: db.execute(sql, (owner, run_id, owner)).fetchall(), full=True)
        return run_row(found[0]) if found else None

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        """See Owners."""
        free = (
            f"SELECT run_id FROM runs WHERE ended_at = 0 AND revision <= ? AND {_NOBODYS} ORDER BY created_at LIMIT ?"
        )
        sql = f"{_CLAIM} run_id IN ({free}) RETURNING {RUN_COLUMNS}"
        found = await self._write(lambda db: db.execute(sql, (owner, revision, limit)).fetchall(), full=True)
        return sorted((run_row(row) for row in found), key=lambda row: row.created_at)

    async def open_runs(self, owner: str = "") -> list[str]:
        """See Owners."""
        sql = "SELECT run_id FROM runs WHERE ended_at = 0 AND (? = '' OR owner = ?) ORDER BY created_at"
        return [row[0] for row in await self._read(sql, (owner, owner))]

    async def post(self, run_id: str, data: bytes) -> None:
        """See Owners."""
        sql = "INSERT INTO commands (run_id, data) VALUES (?, ?)"
        await self._write(lambda db: db.execute(sql, (run_id, data)))

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        """See Owners."""
        sql = (
            "SELECT row_id, run_id, data FROM commands JOIN runs USING (run_id) WHERE owner = ? ORDER BY row_id LIMIT ?"
        )
        return [CommandRow(*row) for row in await self._read(sql, (owner, limit))]

    async def drop(self, row_ids: Sequence[int]) -> None:
        """See Owners."""
        marks = ", ".join("?" * len(row_ids))
        await self._write(lambda db: db.execute(f"DELETE FROM commands WHERE row_id IN ({marks})", list(row_ids)))
