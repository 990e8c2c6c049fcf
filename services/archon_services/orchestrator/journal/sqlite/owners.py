"""Owners and commands of the SQLite journal. The OS lock on its file excludes other processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from archon.errors import DataLoss
from archon_services.common import machine
from archon_services.common.audit_entry import AuditRow
from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.rows import RunRow
from archon_services.orchestrator.journal.sqlite.audit_rows import insert_audit
from archon_services.orchestrator.journal.sqlite.schema import LAST_SEQ, OWN_COLUMNS, RUN_COLUMNS

_UNOWNED = "owner NOT IN (SELECT owner FROM owners)"
_CLAIM = (
    f"UPDATE runs SET owner = ?, epoch = epoch + 1, claimed_seq = {LAST_SEQ}, "
    f"stalled = CASE WHEN claimed_seq = {LAST_SEQ} THEN stalled + (owner <> '') ELSE 0 END"
)
_OPEN = "WHERE ended_at = 0 AND"
_CLAIM_DAMAGED = "UPDATE runs SET owner = ?, epoch = epoch + 1"
_RELEASED = "SELECT run_id FROM runs WHERE ended_at = 0 AND owner = ''"
_FREE = f"SELECT run_id FROM runs WHERE ended_at = 0 AND revision <= ? AND {_UNOWNED} ORDER BY created_at LIMIT ?"


class SqliteOwners:
    """The Owners part of SqliteJournal."""

    shared = False

    async def _write(self, work: Any, *, full: bool = False) -> Any:
        raise NotImplementedError

    async def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        raise NotImplementedError

    def listen(self, on_command: Callable[[str], None]) -> None:
        pass  # no other process posts commands

    async def now(self) -> float:
        return machine.wall_time()

    async def enter(self, owner: OwnerRow) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM owners")
            db.execute(
                "INSERT INTO owners (owner, address, revision, beat) VALUES (?, ?, ?, ?)",
                (owner.owner, owner.address, owner.revision, owner.beat),
            )

        await self._write(work, full=True)

    async def beat(self, owner: str, address: str) -> bool:
        sql = "UPDATE owners SET beat = beat + 1, address = ? WHERE owner = ?"
        changed: int = await self._write(lambda db: db.execute(sql, (address, owner)).rowcount)
        return bool(changed)

    async def live_owners(self) -> list[OwnerRow]:
        return [OwnerRow(*row) for row in await self._read("SELECT owner, address, revision, beat FROM owners")]

    async def expire(self, owner: str, beat: int) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM owners WHERE owner = ? AND beat = ?", (owner, beat))
            return db.execute("SELECT 1 FROM owners WHERE owner = ?", (owner,)).fetchone() is None

        expired: bool = await self._write(work, full=True)
        return expired

    async def leave(self, owner: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM owners WHERE owner = ?", (owner,))
            db.execute("UPDATE runs SET owner = '' WHERE owner = ? AND ended_at = 0", (owner,))

        await self._write(work, full=True)

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        mine = f"run_id = ? AND (owner = ? OR {_UNOWNED}) RETURNING"
        try:
            rows = await self._update(f"{_CLAIM} {_OPEN} {mine} {RUN_COLUMNS}", (owner, run_id, owner))
        except DataLoss:  # its last step cannot be read; who owns it is known all the same
            rows = await self._update(f"{_CLAIM_DAMAGED} {_OPEN} {mine} {OWN_COLUMNS}", (owner, run_id, owner))
        return rows[0] if rows else None

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        free = f"run_id IN ({_FREE})"
        try:
            sql = f"{_CLAIM}, revision = ? {_OPEN} {free} RETURNING {RUN_COLUMNS}"
            rows = await self._update(sql, (owner, revision, revision, limit))
        except DataLoss:  # in one of them, which is not to keep the others from being claimed
            run_ids = await self._read(_FREE, (revision, limit))
            await self._write(
                lambda db: db.execute(f"UPDATE runs SET revision = ? WHERE {free}", (revision, revision, limit))
            )
            rows = [row for (run_id,) in run_ids if (row := await self.claim(run_id, owner)) is not None]
        return sorted(rows, key=lambda row: row.created_at)

    async def newer_runs(self, revision: int, limit: int) -> list[str]:
        sql = f"SELECT run_id FROM runs WHERE ended_at = 0 AND revision > ? AND {_UNOWNED} LIMIT ?"
        return [row[0] for row in await self._read(sql, (revision, limit))]

    async def _update(self, sql: str, parameters: Sequence[object]) -> list[RunRow]:
        def work(db: sqlite3.Connection) -> list[RunRow]:
            released = {run_id for (run_id,) in db.execute(_RELEASED)}
            return [replace(RunRow(*row), released=row[0] in released) for row in db.execute(sql, parameters)]

        rows: list[RunRow] = await self._write(work, full=True)
        return rows

    async def open_runs(self, owner: str = "") -> list[str]:
        sql = "SELECT run_id FROM runs WHERE ended_at = 0 AND (? = '' OR owner = ?) ORDER BY created_at"
        return [row[0] for row in await self._read(sql, (owner, owner))]

    async def post(self, run_id: str, data: bytes, audit: AuditRow | None = None) -> int:
        def work(db: sqlite3.Connection) -> int | None:
            if audit is not None:
                insert_audit(db, [audit])
            return db.execute("INSERT INTO commands (run_id, data) VALUES (?, ?)", (run_id, data)).lastrowid

        row_id: int = await self._write(work)
        return row_id

    async def is_posted(self, row_id: int) -> bool:
        return bool(await self._read("SELECT 1 FROM commands WHERE row_id = ?", (row_id,)))

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        sql = (
            "SELECT row_id, run_id, data FROM commands JOIN runs USING (run_id) WHERE owner = ? ORDER BY row_id LIMIT ?"
        )
        return [CommandRow(*row) for row in await self._read(sql, (owner, limit))]

    async def drop(self, row_ids: Sequence[int]) -> None:
        marks = ", ".join("?" * len(row_ids))
        await self._write(lambda db: db.execute(f"DELETE FROM commands WHERE row_id IN ({marks})", list(row_ids)))
