"""Stored tallies of roles and instances, and ratings of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from archon.errors import ResourceExhausted
from archon_mesh.core.value import value

MAX_TRACK_RECORDS: Final = 20_000
"""Tallies that are kept when the ones of earlier incarnations are added up; the oldest are deleted."""

MAX_RATINGS: Final = 1_000
"""Ratings of one run."""


@value
class TrackRecordRow:
    """The tally of a role, or of one instance, that the incarnation `owner` has made; the sum of all incarnations that
    are gone has no owner. `time` is in wall seconds, `data` are the bytes of a tally."""

    owner: str
    tenant: str
    role: str
    instance_id: str
    time: float
    data: bytes


@value
class RatingRow:
    """A person's rating of a run, 1 to 5 stars; `time` is in wall seconds."""

    identity: str
    stars: int
    comment: str
    time: float


class TrackRecordStore(Protocol):
    """The part of a journal that keeps tallies and ratings. Raises the errors of the journal."""

    async def save_track_records(self, owner: str, rows: Sequence[TrackRecordRow]) -> bool:
        """Stores tallies of a live incarnation in place of its earlier ones. Returns False, and stores nothing, if it
        has expired: its rows may have been added to those without an owner."""
        ...

    async def track_records(self, besides: str) -> list[TrackRecordRow]:
        """Returns the tallies of all incarnations but one."""
        ...

    async def fold_track_records(self, merge: Callable[[list[bytes]], bytes]) -> None:
        """Adds the tallies of incarnations that are gone to those without an owner, in one transaction, and keeps the
        newest MAX_TRACK_RECORDS."""
        ...

    async def rate(self, run_id: str, rating: RatingRow) -> RatingRow | None:
        """Stores a rating, durable on return, in place of an earlier one by the same identity, which it returns.
        Raises ResourceExhausted if the run has MAX_RATINGS ratings of others. The rating is deleted with its run."""
        ...

    async def ratings(self, run_id: str) -> list[RatingRow]:
        """Returns the ratings of a run, oldest first."""
        ...


def folded(rows: Sequence[TrackRecordRow], merge: Callable[[list[bytes]], bytes]) -> list[TrackRecordRow]:
    """Returns one row without an owner for each role and instance of these rows."""
    found: dict[tuple[str, str, str], list[TrackRecordRow]] = {}
    for row in rows:
        found.setdefault((row.tenant, row.role, row.instance_id), []).append(row)
    return [
        TrackRecordRow("", *subject, max(row.time for row in group), merge([row.data for row in group]))
        for subject, group in found.items()
    ]


def too_many_ratings(run_id: str) -> ResourceExhausted:
    """Returns the error about a run that has as many ratings as it can."""
    return ResourceExhausted(
        f"run {run_id} has {MAX_RATINGS:,} ratings, and takes no more",
        metadata={"run_id": run_id, "limit": str(MAX_RATINGS)},
    )
