"""Marks in PostgreSQL, and the runs that retention decides about."""

from __future__ import annotations

from typing import Final

from archon_services.orchestrator.journal.postgres.owners import PostgresOwners
from archon_services.orchestrator.journal.retained import MAX_MARKS, DetailedRun, MarkRow, too_many_marks

_DETAILED: Final = """
SELECT run_id, tenant, state, ended_at, EXISTS (SELECT 1 FROM archon_journal.marks AS m WHERE m.run_id = r.run_id)
FROM archon_journal.runs AS r
WHERE ended_at > 0 AND ended_at < $1 AND (ended_at, run_id) > ($2::double precision, $3::text) AND NOT compacted
  AND revision <= $4 AND NOT EXISTS (SELECT 1 FROM archon_journal.outbox AS o WHERE o.run_id = r.run_id)
ORDER BY ended_at, run_id LIMIT $5
"""
_MARK: Final = f"""
INSERT INTO archon_journal.marks (run_id, identity, reason, "time")
SELECT $1, $2, $3, $4 WHERE
  (SELECT count(*) FROM archon_journal.marks WHERE run_id = $1 AND identity <> $2) < {MAX_MARKS}
ON CONFLICT (run_id, identity) DO UPDATE SET reason = excluded.reason, "time" = excluded."time"
RETURNING run_id
"""
_UNMARK: Final = "DELETE FROM archon_journal.marks WHERE run_id = $1 RETURNING identity"
_MARKS: Final = """
SELECT identity, reason, "time" FROM archon_journal.marks WHERE run_id = $1 ORDER BY "time", identity
"""


class PostgresRetained(PostgresOwners):
    """The RetentionStore part of PostgresJournal."""

    async def detailed_runs(
        self, ended_before: float, after: tuple[float, str], limit: int, *, revision: int = 1
    ) -> list[DetailedRun]:
        rows = await self._connections.fetch(_DETAILED, ended_before, *after, revision, limit)
        return [DetailedRun(*row) for row in rows]

    async def mark(self, run_id: str, mark: MarkRow) -> None:
        if not await self._connections.fetch(_MARK, run_id, mark.identity, mark.reason, mark.time):
            raise too_many_marks(run_id)

    async def unmark(self, run_id: str) -> int:
        return len(await self._connections.fetch(_UNMARK, run_id))

    async def marks(self, run_id: str) -> list[MarkRow]:
        return [MarkRow(*row) for row in await self._connections.fetch(_MARKS, run_id)]
