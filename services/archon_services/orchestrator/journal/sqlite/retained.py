"""Marks of the SQLite journal, and the runs that retention decides about."""

from __future__ import annotations

import sqlite3

from archon_services.orchestrator.journal.retained import MAX_MARKS, DetailedRun, MarkRow, too_many_marks
from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners

_DETAILED = """
SELECT run_id, tenant, state, ended_at, EXISTS (SELECT 1 FROM marks AS m WHERE m.run_id = runs.run_id) FROM runs
WHERE ended_at > 0 AND ended_at < ?1 AND (ended_at, run_id) > (?2, ?3) AND compacted = 0 AND revision <= ?4
  AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.run_id = runs.run_id)
ORDER BY ended_at, run_id LIMIT ?5
"""


class SqliteRetained(SqliteOwners):
    """The RetentionStore part of SqliteJournal."""

    async def detailed_runs(
        self, ended_before: float, after: tuple[float, str], limit: int, *, revision: int = 1
    ) -> list[DetailedRun]:
        rows = await self._read(_DETAILED, (ended_before, *after, revision, limit))
        return [DetailedRun(row[0], row[1], row[2], row[3], bool(row[4])) for row in rows]

    async def mark(self, run_id: str, mark: MarkRow) -> None:
        def work(db: sqlite3.Connection) -> None:
            sql = "SELECT count(*) FROM marks WHERE run_id = ? AND identity <> ?"
            (others,) = db.execute(sql, (run_id, mark.identity)).fetchone()
            if others >= MAX_MARKS:
                raise too_many_marks(run_id)
            values = (run_id, mark.identity, mark.reason, mark.time)
            db.execute("INSERT OR REPLACE INTO marks (run_id, identity, reason, time) VALUES (?, ?, ?, ?)", values)

        await self._write(work, full=True)

    async def unmark(self, run_id: str) -> int:
        def work(db: sqlite3.Connection) -> int:
            return db.execute("DELETE FROM marks WHERE run_id = ?", (run_id,)).rowcount

        removed: int = await self._write(work, full=True)
        return removed

    async def marks(self, run_id: str) -> list[MarkRow]:
        sql = "SELECT identity, reason, time FROM marks WHERE run_id = ? ORDER BY time, identity"
        return [MarkRow(*row) for row in await self._read(sql, (run_id,))]
