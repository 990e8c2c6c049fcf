"""The counts of a day: midnight, clocks that are set, replicas that share a journal, and restarts."""

from __future__ import annotations

import pytest

from archon.errors import Unavailable
from archon_services.common.quotas import DAY
from archon_services.orchestrator.journal import DailyUsageRow, MemoryJournal, OwnerRow
from archon_services.orchestrator.quotas import daily_counts as module
from archon_services.orchestrator.quotas.daily_counts import KEPT_DAYS, MAX_COUNT, Counts, DailyCounts
from archon_services.orchestrator.quotas.upkeep import DailyCountsUpkeep

NOON = 20_000 * DAY + DAY / 2


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> float:
        return self.time


class Replica:
    """The counts of one replica, and their upkeep."""

    def __init__(self, journal: MemoryJournal, owner: str, clock: Clock | None = None) -> None:
        self.journal, self.owner = journal, owner
        self.counts = DailyCounts(clock or Clock())
        self.upkeep = DailyCountsUpkeep(self.counts, journal, lambda: self.owner)

    async def enter(self) -> None:
        await self.journal.enter(OwnerRow(self.owner, f"{self.owner}:1", 1, 0))

    async def sync(self) -> None:
        await self.upkeep.save()
        await self.upkeep.read()


async def two_replicas() -> tuple[Replica, Replica]:
    journal = MemoryJournal(shared=True)
    first, second = Replica(journal, "first"), Replica(journal, "second")
    await first.enter()
    await second.enter()
    return first, second


def test_counts_begin_anew_at_midnight() -> None:
    clock = Clock()
    counts = DailyCounts(clock)
    clock.time = NOON + DAY / 2 - 1
    counts.add("acme", "ann", Counts(1, 10, 100, 1_000))
    assert counts.of_tenant("acme") == counts.of_identity("acme", "ann") == Counts(1, 10, 100, 1_000)
    assert counts.remaining == pytest.approx(1.0)
    clock.time += 1
    assert counts.of_tenant("acme") == counts.of_identity("acme", "ann") == Counts()
    assert counts.remaining == pytest.approx(DAY)


def test_a_clock_that_is_set_back_gives_no_second_quota() -> None:
    clock = Clock()
    counts = DailyCounts(clock)
    counts.add("acme", "ann", Counts(5))
    clock.time += DAY
    counts.add("acme", "ann", Counts(1))
    clock.time -= DAY
    assert counts.of_tenant("acme").runs == 5
    clock.time -= 3_600
    assert counts.of_tenant("acme").runs == 5


def test_identities_of_two_tenants_have_counts_of_their_own() -> None:
    counts = DailyCounts(Clock())
    counts.add("acme", "ann", Counts(1))
    counts.add("acme", "bob", Counts(2))
    counts.add("blue", "ann", Counts(4))
    assert counts.of_tenant("acme").runs == 3
    assert counts.of_identity("blue", "ann").runs == 4
    assert sorted(counts.identities("acme")) == ["ann", "bob"]


def test_counts_stay_within_the_columns_of_a_database() -> None:
    counts = DailyCounts(Clock())
    for tokens in (2**62, 2**62, -(2**63)):
        counts.add("acme", "ann", Counts(tokens=tokens))
    assert counts.of_tenant("acme").tokens == 0
    counts.add("acme", "ann", Counts(tokens=2**62))
    assert counts.of_tenant("acme").tokens == MAX_COUNT


def test_days_and_identities_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IDENTITIES", 2)
    clock = Clock()
    counts = DailyCounts(clock)
    for day in range(2 * KEPT_DAYS):
        clock.time = NOON + day * DAY
        for identity in ("ann", "bob", "cid", "dan"):
            counts.add("acme", identity, Counts(1))
    assert counts.of_tenant("acme").runs == 4, "all of them count for the tenant"
    assert sorted(counts.identities("acme")) == ["ann", "bob"]
    assert len(counts._own) == len(counts._totals) == KEPT_DAYS


async def test_replicas_add_up_each_others_counts() -> None:
    first, second = await two_replicas()
    for _ in range(2):
        first.counts.add("acme", "ann", Counts(1, tokens=100))
        second.counts.add("acme", "bob", Counts(2, tokens=200))
        for replica in (first, second, first):
            await replica.sync()
    for replica in (first, second):
        assert replica.counts.of_tenant("acme") == Counts(6, tokens=600), (
            "each is counted once, however often it is read"
        )
        assert replica.counts.of_identity("acme", "ann") == Counts(2, tokens=200)


async def test_a_restart_goes_on_with_the_counts_of_the_day() -> None:
    journal, clock = MemoryJournal(shared=True), Clock()
    for number in range(3):
        replica = Replica(journal, f"incarnation-{number}", clock)
        await replica.enter()
        await replica.upkeep.start()
        replica.counts.add("acme", "ann", Counts(1))
        assert replica.counts.of_identity("acme", "ann").runs == number + 1
        await replica.upkeep.close()
        await journal.leave(replica.owner)
    clock.time += DAY
    replica = Replica(journal, "tomorrow", clock)
    await replica.enter()
    await replica.sync()
    assert replica.counts.of_tenant("acme") == Counts()
    clock.time += KEPT_DAYS * DAY
    await replica.sync()
    assert journal._daily_usage == {}, "they are deleted after some days, also while a process runs"


async def test_an_incarnation_that_expired_counts_nothing_twice() -> None:
    first, second = await two_replicas()
    first.counts.add("acme", "ann", Counts(5))
    await first.sync()
    await first.journal.expire("first", 0)
    first.counts.add("acme", "ann", Counts(2))
    await second.journal.fold_daily_usage(0)
    await first.upkeep.save()  # it learns that it has expired
    first.owner = "first-again"
    await first.enter()
    for replica in (first, second, first):
        await replica.sync()
    assert first.counts.of_tenant("acme") == second.counts.of_tenant("acme") == Counts(7)


async def test_counts_wait_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await two_replicas()

    async def away(owner: str, rows: list[DailyUsageRow]) -> bool:
        raise Unavailable("the database is away")

    first.counts.add("acme", "ann", Counts(3))
    with monkeypatch.context() as patch:
        patch.setattr(first.journal, "save_daily_usage", away)
        with pytest.raises(Unavailable):
            await first.upkeep.save()
    assert first.counts.of_tenant("acme").runs == 3
    await first.sync()
    await second.sync()
    assert second.counts.of_tenant("acme").runs == 3
