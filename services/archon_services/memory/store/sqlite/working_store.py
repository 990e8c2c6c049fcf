"""Working memory in the SQLite store's file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from archon.errors import ArchonError
from archon_services.memory.domain.working import (
    MAX_PAGE_BYTES,
    KeyRecord,
    Totals,
    Value,
    Write,
    Written,
    apply_write,
)
from archon_services.memory.store.sql_store import with_timeout
from archon_services.memory.store.value_watches import ValueBatch, ValueWatches
from archon_services.memory.store.working_writes import WritesInFlight

PURGE_BATCH: Final = 1_000
"""Values of an expired scope that each write deletes."""

_VALUES: Final = """
SELECT key, value_json, version, updated_at FROM working_values JOIN working_scopes USING (tenant, scope)
WHERE tenant = ? AND scope = ? AND expires_at > ? AND value_json IS NOT NULL
"""


class SqliteWorkingStore:
    """Implements WorkingStore. `do` runs a function in a transaction and returns its result after the commit."""

    def __init__(
        self, do: Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]], clock: Callable[[], float]
    ) -> None:
        self._do = do
        self._clock = clock
        self._watches = ValueWatches()
        self._writes = WritesInFlight(self._write, self._watches.changed)

    async def write(self, request: Write) -> Written:
        return await self._writes.do(request)

    async def _write(self, request: Write) -> Written:
        now = self._clock()
        written: Written = await self._do(lambda db: _write(db, request, now))
        return written

    async def value(self, tenant: str, scope: str, key: str) -> Value | None:
        arguments = (tenant, scope, self._clock(), key)
        row = await with_timeout(self._do(lambda db: db.execute(f"{_VALUES} AND key = ?", arguments).fetchone()))
        return Value(*row) if row is not None else None

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]:
        arguments = (tenant, scope, self._clock(), max(prefix, after), after, prefix, prefix)
        page: tuple[list[Value], bool] = await with_timeout(self._do(lambda db: _page(db, arguments, limit)))
        return page

    def watch(self, tenant: str, scope: str, prefix: str = "") -> AsyncGenerator[ValueBatch, None]:
        return self._watches.watch(self, tenant, scope, prefix)

    def end_watches(self, error: ArchonError) -> None:
        self._watches.close(error)


def _page(db: sqlite3.Connection, arguments: tuple[Any, ...], limit: int) -> tuple[list[Value], bool]:
    query = f"{_VALUES} AND key >= ? AND key > ? AND substr(key, 1, length(?)) = ? ORDER BY key"
    page: list[Value] = []
    size = 0
    cursor = db.execute(query, arguments)
    try:
        for row in cursor:
            if len(page) >= limit or size >= MAX_PAGE_BYTES:
                return page, True
            page.append(Value(*row))
            size += len(row[1].encode())
        return page, False
    finally:
        cursor.close()


def _write(db: sqlite3.Connection, request: Write, now: float) -> Written:
    _purge(db, now)
    _delete_if_expired(db, request, now)
    return apply_write(_SqliteRows(db, request.tenant, request.scope), request, now)


class _SqliteRows:
    """Implements `working.Rows`: reads and writes directly, within the transaction."""

    def __init__(self, db: sqlite3.Connection, tenant: str, scope: str) -> None:
        self._db = db
        self._scope = (tenant, scope)

    def totals(self) -> Totals:
        query = "SELECT keys, size FROM working_scopes WHERE tenant = ? AND scope = ?"
        row = self._db.execute(query, self._scope).fetchone()
        return Totals(*row) if row is not None else Totals()

    def key_record(self, key: str) -> KeyRecord | None:
        row = self._db.execute(
            "SELECT version, length(CAST(value_json AS BLOB)) FROM working_values"
            " WHERE tenant = ? AND scope = ? AND key = ?",
            (*self._scope, key),
        ).fetchone()
        return KeyRecord(*row) if row is not None else None

    def put(self, value: Value, record: KeyRecord, totals: Totals, expires_at: float) -> None:
        value_json = None if record.size is None else value.value_json
        self._db.execute(
            "INSERT OR REPLACE INTO working_values VALUES (?, ?, ?, ?, ?, ?)",
            (*self._scope, value.key, value.version, value_json, value.updated_at),
        )
        self._db.execute(
            "INSERT OR REPLACE INTO working_scopes VALUES (?, ?, ?, ?, ?)",
            (*self._scope, totals.keys, totals.size, expires_at),
        )


def _delete_if_expired(db: sqlite3.Connection, request: Write, now: float) -> None:
    """Deletes the scope of a write if it has expired, so that it starts empty."""
    scope = (request.tenant, request.scope)
    statement = "DELETE FROM working_scopes WHERE tenant = ? AND scope = ? AND expires_at <= ?"
    if db.execute(statement, (*scope, now)).rowcount:
        db.execute("DELETE FROM working_values WHERE tenant = ? AND scope = ?", scope)


def _purge(db: sqlite3.Connection, now: float) -> None:
    """Deletes a bounded part of the oldest expired scope. Each write does so, which keeps tables and latency small."""
    query = "SELECT tenant, scope FROM working_scopes WHERE expires_at <= ? ORDER BY expires_at LIMIT 1"
    scope = db.execute(query, (now,)).fetchone()
    if scope is None:
        return
    batch = f"SELECT rowid FROM working_values WHERE tenant = ? AND scope = ? LIMIT {PURGE_BATCH}"
    if db.execute(f"DELETE FROM working_values WHERE rowid IN ({batch})", scope).rowcount < PURGE_BATCH:
        db.execute("DELETE FROM working_scopes WHERE tenant = ? AND scope = ?", scope)
