"""Daily counts of tenants and identities, tested on each store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archon_services.orchestrator.journal import DailyUsageRow, Journal, OwnerRow

LARGE = 10**15


def row(owner: str, identity: str, runs: int = 1, day: int = 20_000, **counts: int) -> DailyUsageRow:
    amounts = {"bytes": 10, "tokens": 100, "micro_usd": 1_000, **counts}
    return DailyUsageRow(owner, day, "acme", identity, runs, *amounts.values())


async def enter(journal: Journal, owner: str) -> None:
    await journal.enter(OwnerRow(owner, f"{owner}:1", 1, 0))


async def test_a_live_incarnation_replaces_its_own_counts(journal: Journal) -> None:
    await enter(journal, "one")
    assert await journal.save_daily_usage("one", [row("one", "ann"), row("one", "bob"), row("one", "ann", day=20_001)])
    assert await journal.save_daily_usage("one", [row("one", "ann", 2, tokens=LARGE)])
    assert await journal.save_daily_usage("one", [])
    stored = await journal.daily_usage(20_000, "")
    assert sorted(stored, key=lambda each: each.identity) == [row("one", "ann", 2, tokens=LARGE), row("one", "bob")]
    assert await journal.daily_usage(20_000, "one") == []
    assert not await journal.save_daily_usage("two", [row("two", "ann")]), "it has never entered"


async def test_counts_of_incarnations_that_are_gone_are_added(journal: Journal) -> None:
    for owner in ("one", "two"):
        await enter(journal, owner)
        await journal.save_daily_usage(owner, [row(owner, "ann", 2), row(owner, "old", day=10)])
        await journal.leave(owner)
    await enter(journal, "three")
    await journal.save_daily_usage("three", [row("three", "ann", 5), row("three", "old", day=10)])
    total = row("", "ann", 4, bytes=20, tokens=200, micro_usd=2_000)
    for _ in range(2):
        await journal.fold_daily_usage(11)
        assert await journal.daily_usage(20_000, "three") == [total]
    assert len(await journal.daily_usage(20_000, "another")) == 2
    assert await journal.daily_usage(10, "another") == [], "days before are deleted, also of live incarnations"
    assert not await journal.save_daily_usage("one", [row("one", "ann")]), "it is gone for good"


@pytest.mark.parametrize("name", ["sqlite-normal", "postgres"])
async def test_daily_counts_survive_a_restart(place: Callable[[str], Journal], name: str) -> None:
    journal = place(name)
    await journal.open()
    await enter(journal, "one")
    await journal.save_daily_usage("one", [row("one", "ann")])
    await journal.close()
    journal = place(name)
    await journal.open()
    assert await journal.daily_usage(20_000, "") == [row("one", "ann")]
    await journal.close()
