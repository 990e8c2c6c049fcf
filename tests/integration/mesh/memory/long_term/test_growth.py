"""Limits of growth: by age, by number, and entries that repeat one another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon.memory.long_term.entry import LongTermStats
from archon_mesh.memory.long_term.growth import GrowthLimits, Tidied, tidy
from archon_mesh.memory.long_term.port import Change, Filters
from archon_mesh.memory.long_term.sqlite import SqliteLongTermStore
from tests.fixtures.long_term_entries import entry, offline

DAY = 86_400.0
NOW = 1_000 * DAY
T = "t"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteLongTermStore]:
    async with SqliteLongTermStore(tmp_path / "long_term.db") as opened:
        yield opened


async def texts(store: SqliteLongTermStore, *, archived: bool = False) -> set[str]:
    found = await store.recent(T, 1_000, Filters(with_archived=True))
    return {each.content for each in found if each.archived == archived}


async def test_old_entries_without_use_are_archived(store: SqliteLongTermStore) -> None:
    old = NOW - 200 * DAY
    entries = [
        entry("unused", old),
        entry("used", old, last_used=NOW - DAY),
        entry("important", old, importance=0.8),
        entry("new", NOW - DAY),
    ]
    await store.insert(T, entries, [None] * 4)
    assert await tidy(store, T, GrowthLimits(), NOW, []) == Tidied(archived=1)
    assert await texts(store, archived=True) == {"unused"}
    assert await tidy(store, T, GrowthLimits(), NOW, []) == Tidied()


async def test_above_the_limit_those_used_longest_ago_go(store: SqliteLongTermStore) -> None:
    entries = [entry(f"fact {number}", NOW - 100 + number) for number in range(10)]
    await store.insert(T, entries, [None] * 10)
    await store.change(T, [Change(entries[0].id, uses=1, used_at=NOW)])
    limits = GrowthLimits(max_active=4, max_archived=2)
    assert await tidy(store, T, limits, NOW, []) == Tidied(archived=6, deleted=4)
    assert await texts(store) == {"fact 0", "fact 7", "fact 8", "fact 9"}
    assert await texts(store, archived=True) == {"fact 5", "fact 6"}
    assert (await store.stats(T)).active == 4


async def test_a_repeated_entry_takes_over_counts_and_importance(store: SqliteLongTermStore) -> None:
    older = entry(
        "Ana prefers an aisle seat.", NOW - 50, user="ana", use_count=3, useful=2, importance=0.9, last_used=9.0
    )
    newer = entry("Ana prefers an aisle seat", NOW - 40, user="ana", use_count=1, not_useful=1)
    other_user = entry("Ana prefers an aisle seat", NOW - 60, user="ben")
    other_number = entry("Ana prefers seat 12", NOW - 60, user="ana")
    every = [older, newer, other_user, other_number]
    await store.insert(T, every, [offline(each.content) for each in every])
    assert (await tidy(store, T, GrowthLimits(), NOW, every)).merged == 1
    (kept,) = await store.get(T, [newer.id])
    assert (kept.use_count, kept.useful, kept.not_useful, kept.importance, kept.archived) == (4, 2, 1, 0.9, False)
    assert [each.archived for each in await store.get(T, [older.id])] == [True]
    assert await store.stats(T) == LongTermStats(active=3, archived=1, bytes=sum(len(each.content) for each in every))


async def test_limits_must_be_above_zero() -> None:
    with pytest.raises(InvalidArgument):
        GrowthLimits(max_active=0)
    with pytest.raises(InvalidArgument):
        GrowthLimits(archive_after=0)
