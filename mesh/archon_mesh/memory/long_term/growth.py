"""Keeps the number of entries within limits: merges similar ones, archives old ones, deletes archived ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import InvalidArgument
from archon.memory.long_term.contradiction import CONTRADICTS
from archon.memory.long_term.entry import LongTermEntry
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term.port import MAX_BATCH, Change, Filters, LongTermStore
from archon_mesh.memory.long_term.retrieval.similarity import is_duplicate

_DAY: Final = 86_400.0
COMPARED: Final = 10
"""Entries with which a new one is compared."""


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """Limits of one tenant. Ages are in seconds.

    `max_active` and `max_archived` are numbers of entries: above them, those used longest ago are archived, and
    archived ones are deleted. An entry that was neither used nor created within `archive_after` is archived unless its
    importance is at least `keep_importance`.
    """

    max_active: int = 100_000
    max_archived: int = 100_000
    archive_after: float = 180 * _DAY
    keep_importance: float = 0.8

    def __post_init__(self) -> None:
        if min(self.max_active, self.max_archived) < 1 or self.archive_after <= 0:
            raise InvalidArgument("max_active, max_archived and archive_after must be above 0")


DEFAULT_GROWTH: Final = GrowthLimits()


@dataclass(frozen=True, slots=True)
class Tidied:
    """The result of one pass: entries merged into another one, archived for their age or number, and deleted."""

    merged: int = 0
    archived: int = 0
    deleted: int = 0


async def tidy(
    store: LongTermStore, tenant: str, limits: GrowthLimits, now: float, new: Sequence[LongTermEntry]
) -> Tidied:
    """Applies the limits to a tenant, and merges the entries `new` with similar ones. Raises the store's errors."""
    merged = await _merge(store, tenant, new)
    archived = await _archive_old(store, tenant, limits, now)
    stats = await store.stats(tenant)
    archived += await _archive(store, tenant, stats.active - limits.max_active)
    deleted = await _delete_archived(store, tenant, stats.archived + archived - limits.max_archived)
    return Tidied(merged, archived, deleted)


async def _merge(store: LongTermStore, tenant: str, new: Sequence[LongTermEntry]) -> int:
    """Archives entries that a newer one repeats; the newer one takes over their counts and importance."""
    gone: set[str] = set()
    for entry in sorted(new, key=lambda entry: (entry.create_time, entry.id), reverse=True):
        if entry.id in gone:
            continue
        user = entry.metadata.get("user")
        filters = Filters({"user": user} if user is not None else {})
        similar = await store.with_words(tenant, content_words(entry.content), COMPARED, filters)
        older = [other for other in similar if other.id not in gone and _repeats(entry, other)]
        if not older:
            continue
        changes = [Change(other.id, archived=True) for other in older]
        changes.append(
            Change(
                entry.id,
                uses=sum(other.use_count for other in older),
                used_at=max((other.last_used for other in older if other.last_used is not None), default=None),
                useful=sum(other.useful for other in older),
                not_useful=sum(other.not_useful for other in older),
                importance=max(entry.importance, *(other.importance for other in older)),
            )
        )
        await store.change(tenant, changes)
        gone.update(other.id for other in older)
    return len(gone)


def _repeats(entry: LongTermEntry, older: LongTermEntry) -> bool:
    """Whether `entry` repeats an older entry of the same user, role and type."""
    return (
        (older.create_time, older.id) < (entry.create_time, entry.id)
        and older.id not in entry.metadata.get(CONTRADICTS, "")  # that is for the owner to decide
        and all(entry.metadata.get(key) == older.metadata.get(key) for key in ("user", "role", "type"))
        and is_duplicate(entry.content, older.content)
    )


async def _archive_old(store: LongTermStore, tenant: str, limits: GrowthLimits, now: float) -> int:
    entries = await store.least_valuable(tenant, MAX_BATCH, archived=False)
    old = [
        entry
        for entry in entries
        if now - (entry.last_used or entry.create_time) > limits.archive_after
        and entry.importance < limits.keep_importance
    ]
    return await store.change(tenant, [Change(entry.id, archived=True) for entry in old]) if old else 0


async def _archive(store: LongTermStore, tenant: str, count: int) -> int:
    archived = 0
    while archived < count:
        entries = await store.least_valuable(tenant, min(MAX_BATCH, count - archived), archived=False)
        changed = await store.change(tenant, [Change(entry.id, archived=True) for entry in entries])
        if not changed:
            break
        archived += changed
    return archived


async def _delete_archived(store: LongTermStore, tenant: str, count: int) -> int:
    deleted = 0
    while deleted < count:
        entries = await store.least_valuable(tenant, min(MAX_BATCH, count - deleted), archived=True)
        gone = await store.delete(tenant, [entry.id for entry in entries])
        if not gone:
            break
        deleted += gone
    return deleted
