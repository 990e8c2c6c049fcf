"""Behaviour that every store of the shared memory must have: fencing, request ids, versions, watches, expiry. Uses a
manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from archon.errors import Aborted, RequestIdReused, ResourceExhausted, Unavailable
from archon_mesh.core.memory_item import PropagationPolicy
from archon_services.memory.domain.items import NewItem, Published
from archon_services.memory.domain.publishing import MAX_VERSIONS
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


async def test_request_ids_belong_to_a_tenant_and_are_kept_for_a_day(store: MemoryStore, clock: Clock) -> None:
    first, second = NewItem("a", "one"), NewItem("a", "two")
    assert await publish(store, first, request_id="r") == [Published("a", 1)]
    assert await publish(store, second, tenant="other", request_id="r") == [Published("a", 1)]
    clock.now += DAY - 1
    assert await publish(store, first, request_id="r") == [Published("a", 1)]
    with pytest.raises(RequestIdReused):
        await publish(store, second, request_id="r")
    clock.now += 2
    assert await publish(store, second, request_id="r") == [Published("a", 2)]
    assert await contents(store, "other") == {"a": "two"}


async def test_durability_12_fence_outlives_clear_expiry_and_a_day(store: MemoryStore, clock: Clock) -> None:
    for seq in (4, 8):
        await publish(store, NewItem("a", "x", ttl=1.0, run_id="r", epoch=2, seq=seq))
    await store.clear("t", "s")
    clock.now += 2 * DAY
    await publish(store, NewItem("b", "y"))
    assert await refused(store, NewItem("a", "x", run_id="r", epoch=2, seq=7))
    assert await refused(store, NewItem("a", "x", run_id="r", epoch=1, seq=99))
    assert await refused(store, NewItem("a", "x", run_id="r", epoch=2, seq=4))  # no longer kept, still stale
    assert await publish(store, NewItem("a", "x", run_id="r", epoch=2, seq=8)) == [Published("a", 2, True)]
    assert await contents(store) == {"b": "y"}
    assert await publish(store, NewItem("a", "x", run_id="r", epoch=3, seq=1)) == [Published("a", 3)]


async def test_refused_request_stores_nothing_and_may_be_corrected(store: MemoryStore) -> None:
    await publish(store, NewItem("a", "x", run_id="r", epoch=2, seq=1))
    stale = NewItem("a", "late", run_id="r", epoch=1, seq=1)
    with pytest.raises(Aborted):
        await publish(store, NewItem("b", "y", run_id="r", epoch=1, seq=2), stale, request_id="q")
    assert await contents(store) == {"a": "x"}
    assert await publish(store, NewItem("b", "y", run_id="r", epoch=1, seq=2), request_id="q") == [Published("b", 1)]


async def test_refused_request_affects_no_other_in_its_transaction(store: MemoryStore) -> None:
    await publish(store, NewItem("a", "x", run_id="r", epoch=9, seq=1))
    stale = NewItem("a", "late", run_id="r", epoch=1, seq=1)
    items = [stale if number % 3 == 0 else NewItem("b", str(number)) for number in range(30)]
    results = await asyncio.gather(*(publish(store, item) for item in items), return_exceptions=True)
    assert [isinstance(result, Aborted) for result in results] == [item is stale for item in items]
    assert [result[0].version for result in results if isinstance(result, list)] == list(range(1, 21))


async def test_blank_text_gets_no_version_and_moves_no_fence(store: MemoryStore) -> None:
    assert await publish(store, NewItem("a", " ", run_id="r", epoch=1, seq=9)) == [Published("a", 0)]
    assert await publish(store, NewItem("a", "x", run_id="r", epoch=1, seq=3)) == [Published("a", 1)]


async def test_metadata_of_an_expired_item_is_not_merged(store: MemoryStore, clock: Clock) -> None:
    await publish(store, NewItem("a", "x", {"old": "1"}, ttl=10.0))
    clock.now += 9
    await publish(store, NewItem("a", "x", {"new": "1"}, ttl=10.0))
    (stored,) = await store.items("t", "s")
    assert stored.item.metadata == {"old": "1", "new": "1"}
    clock.now += 10
    await publish(store, NewItem("a", "x", {"last": "1"}))
    (stored,) = await store.items("t", "s")
    assert (stored.item.version, stored.item.metadata) == (3, {"last": "1"})


async def test_one_item_is_kept_for_each_policy_of_a_role(store: MemoryStore, clock: Clock) -> None:
    final, tools, _ = PropagationPolicy
    await publish(store, NewItem("a", "answer", {"k": "1"}, final))
    await publish(store, NewItem("a", "results", {}, tools, ttl=10.0), NewItem("a", "newer answer", {}, final))

    async def kept() -> list[tuple[str, int, str]]:
        items = [stored.item for stored in await store.items("t", "s")]
        assert {item.metadata["k"] for item in items} == {"1"}
        return [(item.content, item.version, item.policy) for item in items]

    assert await kept() == [("results", 2, tools), ("newer answer", 3, final)]
    assert [each.version for each in await publish(store, NewItem("a", "more results", {}, tools, ttl=10.0))] == [4]
    assert await kept() == [("newer answer", 3, final), ("more results", 4, tools)]
    clock.now += 10
    assert [each.version for each in await publish(store, NewItem("a", "last answer", {}, final))] == [5]


def of_task(number: int, content: str, seq: int, *, run_id: str = "r", metadata: str = "") -> NewItem:
    labels = {"k": metadata} if metadata else {}
    return NewItem("a", content, labels, run_id=run_id, epoch=1, seq=seq, task_id=f"{run_id}.{number}")


async def test_each_task_of_a_run_keeps_its_item(store: MemoryStore) -> None:
    async def kept() -> list[tuple[str, int, str]]:
        items = [stored.item for stored in await store.items("t", "s")]
        return [(item.content, item.version, item.task_id) for item in items]

    await publish(store, of_task(1, "one", 1, metadata="1"), of_task(2, "two", 2))
    assert await kept() == [("one", 1, "r.1"), ("two", 2, "r.2")]
    await publish(store, of_task(1, "one again", 3))
    assert await kept() == [("two", 2, "r.2"), ("one again", 3, "r.1")]
    two, one = (stored.item.metadata for stored in await store.items("t", "s"))
    assert (one, two) == ({"k": "1"}, {}), "metadata is merged within a task"
    await publish(store, of_task(1, "of another run", 1, run_id="q"))
    assert await kept() == [("of another run", 4, "q.1")], "those of the role's earlier run are replaced"
    await asyncio.gather(publish(store, of_task(1, "x", 5, run_id="p")), publish(store, of_task(1, "y", 6, run_id="o")))
    assert [(content, version) for content, version, _ in await kept()] == [("y", 6)]


async def test_the_items_of_a_roles_tasks_are_bounded(store: MemoryStore) -> None:
    items = [of_task(number, f"answer {number}", number) for number in range(1, MAX_VERSIONS + 3)]
    for first in range(0, len(items), 50):
        await publish(store, *items[first : first + 50])
    await publish(store, of_task(999, "last", 999))
    kept = [stored.item.version for stored in await store.items("t", "s")]
    assert kept == list(range(4, MAX_VERSIONS + 4))


async def test_clear_counts_items_that_had_not_expired(store: MemoryStore, clock: Clock) -> None:
    await publish(store, NewItem("a", "x", ttl=1.0), NewItem("b", "x"))
    await publish(store, NewItem("a", "x"), tenant="other")
    clock.now += 1
    assert await store.clear("t", "s") == 1
    assert await contents(store) == {}
    assert await contents(store, "other") == {"a": "x"}


async def test_slow_watcher_is_disconnected_and_another_is_not(store: MemoryStore) -> None:
    async with aclosing(store.watch("t", "s")) as slow, aclosing(store.watch("t", "s")) as fast:
        assert await anext(slow) == await anext(fast) == []
        for number in range(5):
            await publish(store, NewItem("a", str(number)))
            (stored,) = await anext(fast)
            assert stored.item.content == str(number)
        with pytest.raises(ResourceExhausted) as caught:
            await anext(slow)
        assert caught.value.retry_delay == 1.0


async def test_watch_above_the_limit_is_refused_with_a_retry_delay(
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


async def test_watcher_sees_each_publish_once_wherever_its_snapshot_is(store: MemoryStore) -> None:
    async def watch() -> list[int]:
        versions: list[int] = []
        async with aclosing(store.watch("t", "s")) as batches:
            async for stored in batches:
                versions += [entry.item.version for entry in stored]
                if versions and versions[-1] == 40:
                    return versions
        return versions

    async def publish_all() -> None:
        for number in range(40):
            await publish(store, NewItem("a", str(number)))

    watching = [asyncio.create_task(watch())]
    publishing = asyncio.create_task(publish_all())
    for _ in range(10):
        await publish(store, NewItem("b", "", {}))  # takes as long as a commit
        watching.append(asyncio.create_task(watch()))
    async with asyncio.timeout(60):
        await publishing
        for versions in await asyncio.gather(*watching):
            assert versions == list(range(versions[0], 41))


async def test_watchers_see_the_publish_of_a_cancelled_caller(store: MemoryStore) -> None:
    async with asyncio.timeout(60), aclosing(store.watch("t", "s")) as batches:
        await anext(batches)
        caller = asyncio.create_task(publish(store, NewItem("a", "x")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert [entry.item.content for entry in await anext(batches)] == ["x"]


async def test_publishes_in_flight_are_bounded(store: MemoryStore) -> None:
    many = [publish(store, NewItem("a", str(number))) for number in range(MAX_PUBLISHES + 10)]
    results = await asyncio.gather(*many, return_exceptions=True)
    refused = [result for result in results if isinstance(result, ResourceExhausted)]
    assert len(refused) == 10
    assert all(error.retry_delay for error in refused)


async def test_ended_and_later_watches_are_unavailable(store: MemoryStore) -> None:
    async with aclosing(store.watch("t", "s")) as before, aclosing(store.watch("t", "s")) as after:
        await anext(before)
        store.end_watches()
        assert await anext(after) == []
        for watch in (before, after):
            with pytest.raises(Unavailable):
                await anext(watch)
