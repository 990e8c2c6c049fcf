"""Daily counts of the SQLite journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from archon_services.orchestrator.journal.daily_usage import DailyUsageRow, folded
from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners

_COLUMNS: Final = "owner, day, tenant, identity, runs, bytes, tokens, micro_usd"
_PUT: Final = f"INSERT OR REPLACE INTO daily_usage ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_GONE: Final = "owner NOT IN (SELECT owner FROM owners)"


class SqliteDailyUsage(SqliteOwners):
    """The DailyUsageStore part of SqliteJournal."""

    async def save_daily_usage(self, owner: str, rows: Sequence[DailyUsageRow]) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            if db.execute("SELECT 1 FROM owners WHERE owner = ?", (owner,)).fetchone() is None:
                return False
            db.executemany(_PUT, [(owner, *_values(row)) for row in rows])
            return True

        saved: bool = await self._write(work)
        return saved

    async def daily_usage(self, day: int, besides: str) -> list[DailyUsageRow]:
        sql = f"SELECT {_COLUMNS} FROM daily_usage WHERE day = ? AND owner <> ?"
        return [DailyUsageRow(*row) for row in await self._read(sql, (day, besides))]

    async def fold_daily_usage(self, before: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            gone = [DailyUsageRow(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM daily_usage WHERE {_GONE}")]
            db.execute(f"DELETE FROM daily_usage WHERE {_GONE} OR day < ?", (before,))
            db.executemany(_PUT, [(row.owner, *_values(row)) for row in folded(gone, before)])

        await self._write(work)


def _values(row: DailyUsageRow) -> tuple[int, str, str, int, int, int, int]:
    return row.day, row.tenant, row.identity, row.runs, row.bytes, row.tokens, row.micro_usd
