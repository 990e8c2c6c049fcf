"""Triggers of the SQLite journal. The OS lock on its file excludes other processes: a claim needs no mark."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners
from archon_services.orchestrator.journal.triggers import MAX_FIRES, EndedFire, FireRow, TriggerRow

_COLUMNS: Final = "tenant, kind, name, revision, due, data"
_KEY: Final = "tenant = ? AND kind = ? AND name = ?"
_FIRES: Final = "SELECT fire_id, number, run_id, running, data FROM fires WHERE tenant = ?1 AND kind = ?2 AND name = ?3"
_PUT: Final = """
UPDATE triggers SET revision = ?4, due = ?5, data = ?6
WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND revision = ?4 - 1
"""
_ADD: Final = f"INSERT INTO triggers ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_PUT_FIRE: Final = (
    "INSERT OR REPLACE INTO fires (tenant, kind, name, fire_id, number, run_id, running, data) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_TRIM: Final = f"""
DELETE FROM fires WHERE {_KEY} AND running = 0
AND number <= (SELECT max(number) FROM fires WHERE {_KEY}) - ?
"""
_ENDED: Final = """
SELECT f.tenant, f.kind, f.name, f.run_id, coalesce(r.state, 0) FROM fires AS f
LEFT JOIN runs AS r ON r.run_id = f.run_id
WHERE f.running = 1 AND f.kind = ? AND (r.run_id IS NULL OR r.ended_at > 0) LIMIT ?
"""
_NEVER: Final = 1e300
"""Stored in place of an infinite time, which SQLite would keep as well, but not print."""


class SqliteTriggers(SqliteOwners):
    """The TriggerStore part of SqliteJournal."""

    async def trigger(self, tenant: str, kind: str, name: str) -> TriggerRow | None:
        rows = await self._read(f"SELECT {_COLUMNS} FROM triggers WHERE {_KEY}", (tenant, kind, name))
        return _row(rows[0]) if rows else None

    async def triggers(self, tenant: str, kind: str, after: str = "", limit: int = 100) -> list[TriggerRow]:
        sql = f"SELECT {_COLUMNS} FROM triggers WHERE tenant = ? AND kind = ? AND name > ? ORDER BY name LIMIT ?"
        return [_row(row) for row in await self._read(sql, (tenant, kind, after, limit))]

    async def trigger_count(self, tenant: str, kind: str) -> int:
        sql = "SELECT count(*) FROM triggers WHERE tenant = ? AND kind = ?"
        return int((await self._read(sql, (tenant, kind)))[0][0])

    async def claim_triggers(self, kind: str, now: float, owner: str, limit: int) -> list[TriggerRow]:
        sql = f"SELECT {_COLUMNS} FROM triggers WHERE kind = ? AND due <= ? ORDER BY due, tenant, name LIMIT ?"
        return [_row(row) for row in await self._read(sql, (kind, now, limit))]

    async def next_due(self, kind: str) -> float:
        [(due,)] = await self._read("SELECT min(due) FROM triggers WHERE kind = ?", (kind,))
        return math.inf if due is None else _time(due)

    async def put_trigger(self, row: TriggerRow, fires: Sequence[FireRow] = (), owner: str = "") -> bool:
        values = (*row.key, row.revision, min(row.due, _NEVER), row.data)

        def work(db: sqlite3.Connection) -> bool:
            if not db.execute(_ADD if row.revision == 1 else _PUT, values).rowcount:
                return False
            rows = [(*row.key, each.fire_id, each.number, each.run_id, each.running, each.data) for each in fires]
            db.executemany(_PUT_FIRE, rows)
            if rows:
                db.execute(_TRIM, (*row.key, *row.key, MAX_FIRES))
            return True

        stored: bool = await self._write(work, full=True)
        return stored

    async def delete_trigger(self, tenant: str, kind: str, name: str, revision: int) -> bool:
        key = (tenant, kind, name)

        def work(db: sqlite3.Connection) -> bool:
            if not db.execute(f"DELETE FROM triggers WHERE {_KEY} AND revision = ?", (*key, revision)).rowcount:
                return False
            db.execute(f"DELETE FROM fires WHERE {_KEY}", key)
            return True

        deleted: bool = await self._write(work, full=True)
        return deleted

    async def fires(self, tenant: str, kind: str, name: str, before: int = 0, limit: int = 100) -> list[FireRow]:
        sql = f"{_FIRES} AND (?4 = 0 OR number < ?4) ORDER BY number DESC LIMIT ?5"
        return [_fire(row) for row in await self._read(sql, (tenant, kind, name, before, limit))]

    async def fires_by_id(self, tenant: str, kind: str, name: str, fire_ids: Sequence[str]) -> list[FireRow]:
        sql = f"{_FIRES} AND fire_id IN (SELECT value FROM json_each(?4))"
        return [_fire(row) for row in await self._read(sql, (tenant, kind, name, json.dumps(list(fire_ids))))]

    async def ended_fires(self, kind: str, limit: int) -> list[EndedFire]:
        return [EndedFire(*row) for row in await self._read(_ENDED, (kind, limit))]


def _row(row: Any) -> TriggerRow:
    return TriggerRow(row[0], row[1], row[2], row[3], _time(row[4]), row[5])


def _time(due: float) -> float:
    return math.inf if due >= _NEVER else due


def _fire(row: Any) -> FireRow:
    return FireRow(row[0], row[1], row[2], bool(row[3]), row[4])
