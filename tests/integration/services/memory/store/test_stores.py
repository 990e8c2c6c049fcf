"""Behaviour that every store of the shared memory must have: fencing, request ids, versions, watches, expiry. Uses a
manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from archon.errors import Aborted, RequestIdReused, ResourceExhausted, Unavailable
from archon_services.memory.domain.items import NewItem, Published
from archon_services.memory.store.port import MemoryStore
from archon_services.memory.store.postgres import PostgresStore
from archon_services.memory.store.sql_store import MAX_PUBLISHES, item_feed
from archon_services.memory.store.sqlite.store import SqliteStore
from tests.fixtures.memory_store import DAY, Clock, clock, contents, publish

__all__ = ["clock"]


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[MemoryStore]:
    feed = item_feed(max_queued=3)
    if request.param == "postgres":
        async with PostgresStore(request.getfixturevalue("postgres_dsn"), clock=clock, feed=feed) as database:
            yield database
    else:
        async with SqliteStore(":memory:", clock=clock, feed=feed) as file:
            yield file


async def refused(store: MemoryStore, item: NewItem) -> bool:
    try:
        await publish(store, item)
    except Aborted as error:
        return error.reason == "STALE_EPOCH"
    return False


async def test_request_ids_are_the_tenants_and_remembered_for_a_day(store: MemoryStore, clock: Clock) -> None:
    one, two = NewItem("a", "one"), NewItem("a", "two")
    assert await publish(store, one, request_id="r") == [Published("a", 1)]
    assert await publish(store, two, tenant="other", request_id="r") == [Published("a", 1)]
    clock.now += DAY - 1
    assert await publish(store, one, request_id="r") == [Published("a", 1)]
    with pytest.raises(RequestIdReused):
        await publish(store, two, request_id="r")
    clock.now += 2
    assert await publish(store, two, request_id="r") == [Published("a", 2)]
    assert await contents(store, "other") == {"a": "two"}


async def test_durability_12_the_fence_holds_after_what_it_fenced_is_cleared_expired_or_a_day_old(
    store: MemoryStore, clock: Clock
) -> None:
    for seq in (4, 8):
        await publish(store, NewItem("a", "x", ttl=1.0, run_id="r", epoch=2, seq=seq))
    await store.clear("t", "s")
    clock.now += 2 * DAY
    await publish(store, NewItem("b", "y"))
    assert await refused(store, NewItem("a", "x", run_id="r", epoch=2, seq=7))
    assert await refused(store, NewItem("a", "x", run_id="r", epoch=1, seq=99))
    assert await refused(store, NewItem("a", "x", run_id="r", epoch=2, seq=4))  # no longer known, still too late
    assert await publish(store, NewItem("a", "x", run_id="r", epoch=2, seq=8)) == [Published("a", 2, True)]
    assert await contents(store) == {"b": "y"}
    assert await publish(store, NewItem("a", "x", run_id="r", epoch=3, seq=1)) == [Published("a", 3)]


async def test_a_refused_request_leaves_nothing_behind_and_may_come_again_corrected(store: MemoryStore) -> None:
    await publish(store, NewItem("a", "x", run_id="r", epoch=2, seq=1))
    late = NewItem("a", "late", run_id="r", epoch=1, seq=1)
    with pytest.raises(Aborted):
        await publish(store, NewItem("b", "y", run_id="r", epoch=1, seq=2), late, request_id="q")
    assert await contents(store) == {"a": "x"}
    assert await publish(store, NewItem("b", "y", run_id="r", epoch=1, seq=2), request_id="q") == [Published("b", 1)]


async def test_a_refused_request_hurts_no_other_in_the_same_transaction(store: MemoryStore) -> None:
    await publish(store, NewItem("a", "x", run_id="r", epoch=9, seq=1))
    late = NewItem("a", "late", run_id="r", epoch=1, seq=1)
    given = [late if number % 3 == 0 else NewItem("b", str(number)) for number in range(30)]
    done = await asyncio.gather(*(publish(store, item) for item in given), return_exceptions=True)
    assert [isinstance(one, Aborted) for one in done] == [item is late for item in given]
    assert [one[0].version for one in done if isinstance(one, list)] == list(range(1, 21))


async def test_blank_text_gets_no_version_and_moves_no_fence(store: MemoryStore) -> None:
    assert await publish(store, NewItem("a", " ", run_id="r", epoch=1, seq=9)) == [Published("a", 0)]
    assert await publish(store, NewItem("a", "x", run_id="r", epoch=1, seq=3)) == [Published("a", 1)]


async def test_metadata_of_an_item_that_expired_is_not_merged(store: MemoryStore, clock: Clock) -> None:
    await publish(store, NewItem("a", "x", {"old": "1"}, ttl=10.0))
    clock.now += 9
    await publish(store, NewItem("a", "x", {"new": "1"}, ttl=10.0))
    (stored,) = await store.items("t", "s")
    assert stored.item.metadata == {"old": "1", "new": "1"}
    clock.now += 10
    await publish(store, NewItem("a", "x", {"last": "1"}))
    (stored,) = await store.items("t", "s")
    assert (stored.item.version, stored.item.metadata) == (3, {"last": "1"})


async def test_a_clear_counts_what_had_not_expired(store: MemoryStore, clock: Clock) -> None:
    await publish(store, NewItem("a", "x", ttl=1.0), NewItem("b", "x"))
    await publish(store, NewItem("a", "x"), tenant="other")
    clock.now += 1
    assert await store.clear("t", "s") == 1
    assert await contents(store) == {}
    assert await contents(store, "other") == {"a": "x"}


async def test_a_watcher_that_is_too_slow_is_sent_away_and_another_is_not(store: MemoryStore) -> None:
    async with aclosing(store.watch("t", "s")) as slow, aclosing(store.watch("t", "s")) as fast:
        assert await anext(slow) == await anext(fast) == []
        for number in range(5):
            await publish(store, NewItem("a", str(number)))
            (told,) = await anext(fast)
            assert told.item.content == str(number)
        with pytest.raises(ResourceExhausted) as sent_away:
            await anext(slow)
        assert sent_away.value.retry_delay == 1.0


async def test_above_the_bound_of_watchers_a_watch_is_refused_with_a_delay(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.common.feed.MAX_SUBSCRIPTIONS", 1)
    async with aclosing(store.watch("t", "s")) as only:
        await anext(only)
        async with aclosing(store.watch("t", "another")) as other:
            with pytest.raises(ResourceExhausted) as refused:
                await anext(other)
            assert refused.value.retry_delay
    async with aclosing(store.watch("t", "another")) as later:
        assert await anext(later) == []


async def test_a_watcher_hears_each_publish_once_wherever_its_snapshot_falls(store: MemoryStore) -> None:
    async def watch() -> list[int]:
        versions: list[int] = []
        async with aclosing(store.watch("t", "s")) as news:
            async for stored in news:
                versions += [one.item.version for one in stored]
                if versions and versions[-1] == 40:
                    return versions
        return versions

    async def publish_all() -> None:
        for number in range(40):
            await publish(store, NewItem("a", str(number)))

    watching = [asyncio.create_task(watch())]
    publishing = asyncio.create_task(publish_all())
    for _ in range(10):
        await publish(store, NewItem("b", "", {}))  # as much time as a commit takes
        watching.append(asyncio.create_task(watch()))
    async with asyncio.timeout(5):
        await publishing
        for versions in await asyncio.gather(*watching):
            assert versions == list(range(versions[0], 41))


async def test_a_caller_that_goes_away_takes_nothing_from_watchers(store: MemoryStore) -> None:
    async with asyncio.timeout(5), aclosing(store.watch("t", "s")) as news:
        await anext(news)
        caller = asyncio.create_task(publish(store, NewItem("a", "x")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert [one.item.content for one in await anext(news)] == ["x"]


async def test_publishes_under_way_have_a_bound(store: MemoryStore) -> None:
    many = [publish(store, NewItem("a", str(number))) for number in range(MAX_PUBLISHES + 10)]
    done = await asyncio.gather(*many, return_exceptions=True)
    refused = [one for one in done if isinstance(one, ResourceExhausted)]
    assert len(refused) == 10
    assert all(one.retry_delay for one in refused)


async def test_ended_watches_are_unavailable_those_to_come_too(store: MemoryStore) -> None:
    async with aclosing(store.watch("t", "s")) as before, aclosing(store.watch("t", "s")) as after:
        await anext(before)
        store.end_watches()
        assert await anext(after) == []
        for watch in (before, after):
            with pytest.raises(Unavailable):
                await anext(watch)
