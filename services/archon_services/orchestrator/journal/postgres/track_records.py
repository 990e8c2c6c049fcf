"""Tallies and ratings in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from archon_services.orchestrator.journal.postgres.owners import PostgresOwners
from archon_services.orchestrator.journal.track_records import (
    MAX_RATINGS,
    MAX_TRACK_RECORDS,
    RatingRow,
    TrackRecordRow,
    folded,
    too_many_ratings,
)
from archon_services.postgres.connections import Connection

_COLUMNS: Final = "owner, tenant, role, instance_id, time, data"

# FOR KEY SHARE: beats go on, and an expiry waits, so that they are there when the incarnation's rows are added up.
SAVE: Final = f"""
WITH living AS (SELECT owner FROM archon_journal.owners WHERE owner = $1 FOR KEY SHARE), put AS (
  INSERT INTO archon_journal.track_records ({_COLUMNS})
  SELECT living.owner, r.* FROM living, unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::bytea[]) AS r
  ON CONFLICT (owner, tenant, role, instance_id) DO UPDATE SET time = excluded.time, data = excluded.data
)
SELECT owner FROM living
"""
READ: Final = f"SELECT {_COLUMNS} FROM archon_journal.track_records WHERE owner <> $1"
TAKE: Final = f"""
DELETE FROM archon_journal.track_records WHERE owner NOT IN (SELECT owner FROM archon_journal.owners)
RETURNING {_COLUMNS}
"""
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('archon_journal.track_records'))"
PUT: Final = f"INSERT INTO archon_journal.track_records ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)"
TRIM: Final = f"""
DELETE FROM archon_journal.track_records WHERE time < (
  SELECT time FROM archon_journal.track_records ORDER BY time DESC OFFSET {MAX_TRACK_RECORDS - 1} LIMIT 1
)
"""
RATE: Final = f"""
WITH earlier AS (
  SELECT identity, stars, comment, time FROM archon_journal.ratings WHERE run_id = $1 AND identity = $2 FOR UPDATE
), put AS (
  INSERT INTO archon_journal.ratings (run_id, identity, stars, comment, time)
  SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM earlier)
    OR (SELECT count(*) FROM archon_journal.ratings WHERE run_id = $1) < {MAX_RATINGS}
  ON CONFLICT (run_id, identity) DO UPDATE
    SET stars = excluded.stars, comment = excluded.comment, time = excluded.time
  RETURNING run_id
)
SELECT e.identity, e.stars, e.comment, e.time FROM put LEFT JOIN earlier AS e ON true
"""
RATINGS: Final = (
    "SELECT identity, stars, comment, time FROM archon_journal.ratings WHERE run_id = $1 ORDER BY time, identity"
)


class PostgresTrackRecords(PostgresOwners):
    """The TrackRecordStore part of PostgresJournal."""

    async def save_track_records(self, owner: str, rows: Sequence[TrackRecordRow]) -> bool:
        columns = (
            [row.tenant for row in rows],
            [row.role for row in rows],
            [row.instance_id for row in rows],
            [row.time for row in rows],
            [row.data for row in rows],
        )
        return bool(await self._connections.fetch(SAVE, owner, *columns))

    async def track_records(self, besides: str) -> list[TrackRecordRow]:
        return [TrackRecordRow(*row) for row in await self._connections.fetch(READ, besides)]

    async def fold_track_records(self, merge: Callable[[list[bytes]], bytes]) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(LOCK)  # two replicas that start at once would add the same row
            gone = [TrackRecordRow(*row) for row in await connection.fetch(TAKE)]
            rows = [(r.owner, r.tenant, r.role, r.instance_id, r.time, r.data) for r in folded(gone, merge)]
            if rows:
                await connection.executemany(PUT, rows)
            await connection.execute(TRIM)

        await self._connections.transact(work)

    async def rate(self, run_id: str, rating: RatingRow) -> RatingRow | None:
        values = (run_id, rating.identity, rating.stars, rating.comment, rating.time)
        rows = await self._connections.fetch(RATE, *values)
        if not rows:
            raise too_many_ratings(run_id)
        return RatingRow(*rows[0]) if rows[0][0] is not None else None

    async def ratings(self, run_id: str) -> list[RatingRow]:
        return [RatingRow(*row) for row in await self._connections.fetch(RATINGS, run_id)]
