"""Tallies and ratings of the journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archon_services.orchestrator.journal.memory.owners import MemoryOwners
from archon_services.orchestrator.journal.track_records import (
    MAX_RATINGS,
    MAX_TRACK_RECORDS,
    RatingRow,
    TrackRecordRow,
    folded,
    too_many_ratings,
)


class MemoryTrackRecords(MemoryOwners):
    """The TrackRecordStore part of MemoryJournal."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._track_records: dict[tuple[str, str, str, str], TrackRecordRow] = {}
        self._ratings: dict[str, dict[str, RatingRow]] = {}

    async def save_track_records(self, owner: str, rows: Sequence[TrackRecordRow]) -> bool:
        if owner not in self._living:
            return False
        self._track_records |= {(owner, row.tenant, row.role, row.instance_id): row for row in rows}
        return True

    async def track_records(self, besides: str) -> list[TrackRecordRow]:
        return [row for row in self._track_records.values() if row.owner != besides]

    async def fold_track_records(self, merge: Callable[[list[bytes]], bytes]) -> None:
        gone = [row for row in self._track_records.values() if row.owner not in self._living]
        for row in gone:
            del self._track_records[row.owner, row.tenant, row.role, row.instance_id]
        kept = [*self._track_records.values(), *folded(gone, merge)]
        kept = sorted(kept, key=lambda row: row.time, reverse=True)[:MAX_TRACK_RECORDS]
        self._track_records = {(row.owner, row.tenant, row.role, row.instance_id): row for row in kept}

    async def rate(self, run_id: str, rating: RatingRow) -> RatingRow | None:
        ratings = self._ratings.setdefault(run_id, {})
        if rating.identity not in ratings and len(ratings) >= MAX_RATINGS:
            raise too_many_ratings(run_id)
        earlier = ratings.get(rating.identity)
        ratings[rating.identity] = rating
        return earlier

    async def ratings(self, run_id: str) -> list[RatingRow]:
        return sorted(self._ratings.get(run_id, {}).values(), key=lambda rating: (rating.time, rating.identity))
