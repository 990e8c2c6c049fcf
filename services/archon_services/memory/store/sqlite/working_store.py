"""Working memory in the SQLite store's file: what it does inside the writer's transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, Final

from archon_services.memory.domain import working
from archon_services.memory.domain.working import MAX_PAGE_BYTES, Held, Totals, Value, Write, Written
from archon_services.memory.store.sql_store import within
from archon_services.memory.store.working_writes import Writes

PURGED_AT_ONCE: Final = 1_000
"""Values, of one scope that is over, with each write."""

_VALUES: Final = """
SELECT key, value_json, version, updated_at FROM working_values JOIN working_scopes USING (tenant, scope)
WHERE tenant = ? AND scope = ? AND expires_at > ? AND value_json IS NOT NULL
"""


class SqliteWorking:
    """See WorkingStore. `do` runs work in a transaction and returns when it is committed."""

    def __init__(
        self, do: Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]], clock: Callable[[], float]
    ) -> None:
        self._do = do
        self._clock = clock
        self._writes = Writes(self._write)

    async def write(self, given: Write) -> Written:
        """See WorkingStore."""
        return await self._writes.do(given)

    async def _write(self, given: Write) -> Written:
        now = self._clock()
        written: Written = await self._do(lambda db: _write(db, given, now))
        return written

    async def value(self, tenant: str, scope: str, key: str) -> Value | None:
        """See WorkingStore."""
        asked = (tenant, scope, self._clock(), key)
        row = await within(self._do(lambda db: db.execute(f"{_VALUES} AND key = ?", asked).fetchone()))
        return Value(*row) if row is not None else None

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]:
        """See WorkingStore."""
        asked = (tenant, scope, self._clock(), max(prefix, after), after, prefix, prefix)
        page: tuple[list[Value], bool] = await within(self._do(lambda db: _page(db, asked, limit)))
        return page


def _page(db: sqlite3.Connection, asked: tuple[Any, ...], limit: int) -> tuple[list[Value], bool]:
    sql = f"{_VALUES} AND key >= ? AND key > ? AND substr(key, 1, length(?)) = ? ORDER BY key"
    found: list[Value] = []
    size = 0
    cursor = db.execute(sql, asked)
    try:
        for row in cursor:
            if len(found) >= limit or size >= MAX_PAGE_BYTES:
                return found, True
            found.append(Value(*row))
            size += len(row[1].encode())
        return found, False
    finally:
        cursor.close()


def _write(db: sqlite3.Connection, given: Write, now: float) -> Written:
    _purge(db, now)
    _forget(db, given, now)
    return working.write(_Rows(db, given.tenant, given.scope), given, now)


class _Rows:
    """See working.Rows: looked up and written at once, inside the transaction."""

    def __init__(self, db: sqlite3.Connection, tenant: str, scope: str) -> None:
        self._db = db
        self._scope = (tenant, scope)

    def totals(self) -> Totals:
        """See Rows."""
        sql = "SELECT keys, size FROM working_scopes WHERE tenant = ? AND scope = ?"
        row = self._db.execute(sql, self._scope).fetchone()
        return Totals(*row) if row is not None else Totals()

    def held(self, key: str) -> Held | None:
        """See Rows."""
        row = self._db.execute(
            "SELECT version, length(CAST(value_json AS BLOB)) FROM working_values"
            " WHERE tenant = ? AND scope = ? AND key = ?",
            (*self._scope, key),
        ).fetchone()
        return Held(*row) if row is not None else None

    def put(self, value: Value, held: Held, totals: Totals, expires_at: float) -> None:
        """See Rows."""
        stands = None if held.size is None else value.value_json
        self._db.execute(
            "INSERT OR REPLACE INTO working_values VALUES (?, ?, ?, ?, ?, ?)",
            (*self._scope, value.key, value.version, stands, value.updated_at),
        )
        self._db.execute(
            "INSERT OR REPLACE INTO working_scopes VALUES (?, ?, ?, ?, ?)",
            (*self._scope, totals.keys, totals.size, expires_at),
        )


def _forget(db: sqlite3.Connection, given: Write, now: float) -> None:
    """The scope, where its time is over: it begins anew."""
    scope = (given.tenant, given.scope)
    over = "DELETE FROM working_scopes WHERE tenant = ? AND scope = ? AND expires_at <= ?"
    if db.execute(over, (*scope, now)).rowcount:
        db.execute("DELETE FROM working_values WHERE tenant = ? AND scope = ?", scope)


def _purge(db: sqlite3.Connection, now: float) -> None:
    """A little of what is over goes with each write, so that nothing grows for ever and nothing takes long."""
    sql = "SELECT tenant, scope FROM working_scopes WHERE expires_at <= ? ORDER BY expires_at LIMIT 1"
    scope = db.execute(sql, (now,)).fetchone()
    if scope is None:
        return
    some = f"SELECT rowid FROM working_values WHERE tenant = ? AND scope = ? LIMIT {PURGED_AT_ONCE}"
    if db.execute(f"DELETE FROM working_values WHERE rowid IN ({some})", scope).rowcount < PURGED_AT_ONCE:
        db.execute("DELETE FROM working_scopes WHERE tenant = ? AND scope = ?", scope)
