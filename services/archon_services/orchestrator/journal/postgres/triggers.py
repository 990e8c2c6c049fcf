"""Triggers in PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from archon_services.orchestrator.journal.postgres.owners import PostgresOwners
from archon_services.orchestrator.journal.triggers import MAX_FIRES, EndedFire, FireRow, TriggerRow
from archon_services.postgres.connections import Connection

_COLUMNS: Final = 'tenant, kind, "name", revision, due, data'
_KEY: Final = 'tenant = $1 AND kind = $2 AND "name" = $3'
_GET: Final = f"SELECT {_COLUMNS} FROM archon_journal.triggers WHERE {_KEY}"
_LIST: Final = f"""
SELECT {_COLUMNS} FROM archon_journal.triggers WHERE tenant = $1 AND kind = $2 AND "name" > $3 COLLATE "C"
ORDER BY "name" LIMIT $4
"""
_COUNT: Final = "SELECT count(*) FROM archon_journal.triggers WHERE tenant = $1 AND kind = $2"
_CLAIM: Final = """
WITH free AS (
  SELECT tenant, kind, "name" FROM archon_journal.triggers
  WHERE kind = $1 AND due <= $2 AND (owner = $3 OR owner NOT IN (SELECT owner FROM archon_journal.owners))
  ORDER BY due, tenant, "name" LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE archon_journal.triggers AS t SET owner = $3 FROM free
WHERE t.tenant = free.tenant AND t.kind = free.kind AND t."name" = free."name"
RETURNING t.tenant, t.kind, t."name", t.revision, t.due, t.data
"""
_NEXT: Final = "SELECT due FROM archon_journal.triggers WHERE kind = $1 ORDER BY due LIMIT 1"
_ADD: Final = f"""
INSERT INTO archon_journal.triggers ({_COLUMNS}, owner) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING
RETURNING 1
"""
_PUT: Final = f"""
UPDATE archon_journal.triggers SET revision = $4, due = $5, data = $6, owner = $7 WHERE {_KEY} AND revision = $4 - 1
RETURNING 1
"""
_PUT_FIRES: Final = """
INSERT INTO archon_journal.fires (tenant, kind, "name", fire_id, number, run_id, running, data)
SELECT $1, $2, $3, * FROM unnest($4::text[], $5::bigint[], $6::text[], $7::boolean[], $8::bytea[])
ON CONFLICT (tenant, kind, "name", fire_id) DO UPDATE SET
  number = excluded.number, run_id = excluded.run_id, running = excluded.running, data = excluded.data
"""
_TRIM: Final = f"""
DELETE FROM archon_journal.fires WHERE {_KEY} AND NOT running
AND number <= (SELECT max(number) FROM archon_journal.fires WHERE {_KEY}) - $4
"""
_DELETE: Final = f"DELETE FROM archon_journal.triggers WHERE {_KEY} AND revision = $4 RETURNING 1"
_DELETE_FIRES: Final = f"DELETE FROM archon_journal.fires WHERE {_KEY}"
_FIRES: Final = f"SELECT fire_id, number, run_id, running, data FROM archon_journal.fires WHERE {_KEY}"
_ENDED: Final = """
SELECT f.tenant, f.kind, f."name", f.run_id, coalesce(r.state, 0) FROM archon_journal.fires AS f
LEFT JOIN archon_journal.runs AS r ON r.run_id = f.run_id
WHERE f.running AND f.kind = $1 AND (r.run_id IS NULL OR r.ended_at > 0) LIMIT $2
"""


class PostgresTriggers(PostgresOwners):
    """The TriggerStore part of PostgresJournal. A statement that is sent again after a lost connection finds its own
    change, and reports a conflict: its caller reads again."""

    async def trigger(self, tenant: str, kind: str, name: str) -> TriggerRow | None:
        rows = await self._connections.fetch(_GET, tenant, kind, name)
        return TriggerRow(*rows[0]) if rows else None

    async def triggers(self, tenant: str, kind: str, after: str = "", limit: int = 100) -> list[TriggerRow]:
        return [TriggerRow(*row) for row in await self._connections.fetch(_LIST, tenant, kind, after, limit)]

    async def trigger_count(self, tenant: str, kind: str) -> int:
        return int((await self._connections.fetch(_COUNT, tenant, kind))[0][0])

    async def claim_triggers(self, kind: str, now: float, owner: str, limit: int) -> list[TriggerRow]:
        rows = [TriggerRow(*row) for row in await self._connections.fetch(_CLAIM, kind, now, owner, limit)]
        return sorted(rows, key=lambda row: (row.due, row.key))

    async def next_due(self, kind: str) -> float:
        rows = await self._connections.fetch(_NEXT, kind)
        return float(rows[0][0]) if rows else math.inf

    async def put_trigger(self, row: TriggerRow, fires: Sequence[FireRow] = (), owner: str = "") -> bool:
        stored = False

        async def work(connection: Connection) -> None:
            nonlocal stored
            statement = _ADD if row.revision == 1 else _PUT
            stored = bool(await connection.fetch(statement, *row.key, row.revision, row.due, row.data, owner))
            if not stored or not fires:
                return
            columns = [
                [fire.fire_id for fire in fires],
                [fire.number for fire in fires],
                [fire.run_id for fire in fires],
                [fire.running for fire in fires],
                [fire.data for fire in fires],
            ]
            await connection.execute(_PUT_FIRES, *row.key, *columns)
            await connection.execute(_TRIM, *row.key, MAX_FIRES)

        await self._connections.transact(work)
        return stored

    async def delete_trigger(self, tenant: str, kind: str, name: str, revision: int) -> bool:
        deleted = False

        async def work(connection: Connection) -> None:
            nonlocal deleted
            deleted = bool(await connection.fetch(_DELETE, tenant, kind, name, revision))
            if deleted:
                await connection.execute(_DELETE_FIRES, tenant, kind, name)

        await self._connections.transact(work)
        return deleted

    async def fires(self, tenant: str, kind: str, name: str, before: int = 0, limit: int = 100) -> list[FireRow]:
        sql = f"{_FIRES} AND ($4::bigint = 0 OR number < $4) ORDER BY number DESC LIMIT $5"
        return [FireRow(*row) for row in await self._connections.fetch(sql, tenant, kind, name, before, limit)]

    async def fires_by_id(self, tenant: str, kind: str, name: str, fire_ids: Sequence[str]) -> list[FireRow]:
        sql = f"{_FIRES} AND fire_id = ANY($4::text[])"
        return [FireRow(*row) for row in await self._connections.fetch(sql, tenant, kind, name, list(fire_ids))]

    async def ended_fires(self, kind: str, limit: int) -> list[EndedFire]:
        return [EndedFire(*row) for row in await self._connections.fetch(_ENDED, kind, limit)]
