"""Tallies and ratings of the SQLite journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners
from archon_services.orchestrator.journal.track_records import (
    MAX_RATINGS,
    MAX_TRACK_RECORDS,
    RatingRow,
    TrackRecordRow,
    folded,
    too_many_ratings,
)

_COLUMNS = "owner, tenant, role, instance_id, time, data"
_PUT = f"INSERT OR REPLACE INTO track_records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_GONE = "owner NOT IN (SELECT owner FROM owners)"


class SqliteTrackRecords(SqliteOwners):
    """The TrackRecordStore part of SqliteJournal."""

    async def save_track_records(self, owner: str, rows: Sequence[TrackRecordRow]) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            if db.execute("SELECT 1 FROM owners WHERE owner = ?", (owner,)).fetchone() is None:
                return False
            db.executemany(_PUT, [(owner, row.tenant, row.role, row.instance_id, row.time, row.data) for row in rows])
            return True

        saved: bool = await self._write(work)
        return saved

    async def track_records(self, besides: str) -> list[TrackRecordRow]:
        rows = await self._read(f"SELECT {_COLUMNS} FROM track_records WHERE owner <> ?", (besides,))
        return [TrackRecordRow(*row) for row in rows]

    async def fold_track_records(self, merge: Callable[[list[bytes]], bytes]) -> None:
        def work(db: sqlite3.Connection) -> None:
            gone = [TrackRecordRow(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM track_records WHERE {_GONE}")]
            db.execute(f"DELETE FROM track_records WHERE {_GONE}")
            for row in folded(gone, merge):
                db.execute(_PUT, (row.owner, row.tenant, row.role, row.instance_id, row.time, row.data))
            db.execute(
                "DELETE FROM track_records WHERE (owner, tenant, role, instance_id) IN (SELECT owner, tenant, role, "
                "instance_id FROM track_records ORDER BY time DESC LIMIT -1 OFFSET ?)",
                (MAX_TRACK_RECORDS,),
            )

        await self._write(work)

    async def rate(self, run_id: str, rating: RatingRow) -> RatingRow | None:
        def work(db: sqlite3.Connection) -> RatingRow | None:
            own = "SELECT identity, stars, comment, time FROM ratings WHERE run_id = ? AND identity = ?"
            earlier = db.execute(own, (run_id, rating.identity)).fetchone()
            (count,) = db.execute("SELECT count(*) FROM ratings WHERE run_id = ?", (run_id,)).fetchone()
            if earlier is None and count >= MAX_RATINGS:
                raise too_many_ratings(run_id)
            values = (run_id, rating.identity, rating.stars, rating.comment, rating.time)
            columns = "run_id, identity, stars, comment, time"
            db.execute(f"INSERT OR REPLACE INTO ratings ({columns}) VALUES (?, ?, ?, ?, ?)", values)
            return RatingRow(*earlier) if earlier is not None else None

        replaced: RatingRow | None = await self._write(work, full=True)
        return replaced

    async def ratings(self, run_id: str) -> list[RatingRow]:
        sql = "SELECT identity, stars, comment, time FROM ratings WHERE run_id = ? ORDER BY time, identity"
        return [RatingRow(*row) for row in await self._read(sql, (run_id,))]
