"""Behaviour that every store of working memory must have: versions, expected versions, pages, bounds, expiry. Uses a
manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from archon.errors import Aborted, ResourceExhausted, Unavailable
from archon_services.memory.domain import working
from archon_services.memory.domain.working import RETENTION, Value, Write
from archon_services.memory.store import value_watches
from archon_services.memory.store.port import WorkingStore
from archon_services.memory.store.postgres import PostgresStore
from archon_services.memory.store.sqlite.store import SqliteStore
from tests.fixtures.memory_store import Clock, clock

__all__ = ["clock"]


@pytest.fixture(params=["file", "memory", "postgres"])
async def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> AsyncIterator[WorkingStore]:
    if request.param == "postgres":
        async with PostgresStore(request.getfixturevalue("postgres_dsn"), clock=clock) as database:
            yield database.working
    else:
        path = ":memory:" if request.param == "memory" else tmp_path / "memory.db"
        async with SqliteStore(path, clock=clock) as file:
            yield file.working


async def put(
    store: WorkingStore, key: str, value: str = "1", expected: int | None = None, *, scope: str = "s", tenant: str = "t"
) -> int:
    written = await store.write(Write(tenant, scope, key, value, expected))
    assert written is not None
    return written.version


async def delete(store: WorkingStore, key: str, expected: int | None = None) -> bool:
    return await store.write(Write("t", "s", key, None, expected)) is not None


async def keys(store: WorkingStore, scope: str = "s", tenant: str = "t") -> dict[str, int]:
    page, more = await store.values(tenant, scope, limit=1_000)
    assert not more
    return {value.key: value.version for value in page}


async def test_value_comes_back_with_its_version_and_time(store: WorkingStore, clock: Clock) -> None:
    assert await store.value("t", "s", "k") is None
    text = '{"naïve": ["𝄞", "\\u0000", 1.5, null]}'
    assert await put(store, "k", text) == 1
    clock.now += 5
    assert await put(store, "k", "2") == 2
    assert await put(store, "other", text) == 1
    assert await store.value("t", "s", "k") == Value("k", "2", 2, clock.now)
    assert await store.value("t", "s", "other") == Value("other", text, 1, clock.now)


async def test_scopes_and_tenants_are_separate(store: WorkingStore) -> None:
    await put(store, "k", "1")
    await put(store, "k", "2", scope="s2")
    await put(store, "k", "3", tenant="t2")
    for tenant, scope, value in (("t", "s", "1"), ("t", "s2", "2"), ("t2", "s", "3")):
        stored = await store.value(tenant, scope, "k")
        assert stored is not None and (stored.value_json, stored.version) == (value, 1)
    assert await store.value("t2", "s2", "k") is None


async def test_versions_continue_after_a_delete(store: WorkingStore) -> None:
    assert [await put(store, "k"), await put(store, "k")] == [1, 2]
    assert await delete(store, "k")
    assert await store.value("t", "s", "k") is None
    assert await keys(store) == {}
    assert not await delete(store, "k")
    assert not await delete(store, "never written")
    assert await put(store, "k") == 3


async def test_write_with_a_wrong_expected_version_changes_nothing(store: WorkingStore) -> None:
    assert await put(store, "k", "1", 0) == 1
    for expected in (0, 2):
        with pytest.raises(Aborted) as refused:
            await put(store, "k", "2", expected)
        assert refused.value.reason == "CONFLICT"
        assert refused.value.metadata["version"] == "1"
    assert await put(store, "k", "2", 1) == 2
    with pytest.raises(Aborted):
        await delete(store, "k", 1)
    assert await keys(store) == {"k": 2}
    assert await delete(store, "k", 2)
    assert not await delete(store, "k", 2)  # deleting a missing value is not an error
    with pytest.raises(Aborted) as refused:
        await put(store, "k", "3", 2)
    assert refused.value.metadata["version"] == "0"
    assert await put(store, "k", "3", 0) == 3


async def test_one_of_concurrent_writers_of_a_version_wins(
    store: WorkingStore,
) -> None:
    results = await asyncio.gather(
        *(put(store, "k", str(number), 0) for number in range(20)),
        *(put(store, f"other {number}") for number in range(20)),
        return_exceptions=True,
    )
    assert [result for result in results[:20] if not isinstance(result, Aborted)] == [1]
    assert results[20:] == [1] * 20
    assert (await keys(store))["k"] == 1


async def test_concurrent_writes_to_a_key_get_a_version_each(store: WorkingStore) -> None:
    versions = await asyncio.gather(*(put(store, "k", str(number)) for number in range(50)))
    assert sorted(versions) == list(range(1, 51))
    value = await store.value("t", "s", "k")
    assert value is not None and versions[int(value.value_json)] == value.version == 50


async def test_pages_are_ordered_by_key_in_code_point_order(store: WorkingStore) -> None:
    names = ["B", "a", "a%", "a_b", "aa", "ab", "b", "é", "\uffff", "𝄞"]
    for name in reversed(names):
        await put(store, name)
    await put(store, "ac")
    await delete(store, "ac")
    listed: list[str] = []
    after = ""
    while True:
        page, more = await store.values("t", "s", after=after, limit=3)
        listed += [value.key for value in page]
        if not more:
            break
        assert len(page) == 3
        after = page[-1].key
    assert listed == names
    assert await store.values("t", "s", after="𝄞") == ([], False)
    for prefix in ("a", "a_", "a%", "b", "z", "é"):
        page, more = await store.values("t", "s", prefix=prefix)
        assert ([value.key for value in page], more) == ([name for name in names if name.startswith(prefix)], False)
    page, more = await store.values("t", "s", prefix="a", after="a_b", limit=1)
    assert ([value.key for value in page], more) == (["aa"], True)
    page, more = await store.values("t", "s", limit=len(names))
    assert (len(page), more) == (len(names), False)


async def test_page_of_large_values_is_cut_short(store: WorkingStore) -> None:
    large = f'"{"x" * 1_000_000}"'
    for number in range(7):
        await put(store, str(number), large)
    page, more = await store.values("t", "s")
    assert ([value.key for value in page], more) == (["0", "1", "2", "3", "4"], True)
    page, more = await store.values("t", "s", after="4")
    assert ([value.key for value in page], more) == (["5", "6"], False)


async def test_keys_of_a_scope_are_bounded_and_existing_ones_writable(
    store: WorkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "MAX_KEYS", 3)
    for name in "abc":
        await put(store, name)
    await delete(store, "c")  # its version is kept
    with pytest.raises(ResourceExhausted):
        await put(store, "d")
    assert await put(store, "c") == 2
    assert await put(store, "d", scope="another") == 1


async def test_values_of_a_scope_are_bounded_in_bytes(store: WorkingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "MAX_SCOPE_BYTES", 100)
    await put(store, "a", f'"{"é" * 40}"')  # 82 bytes
    with pytest.raises(ResourceExhausted):
        await put(store, "b", f'"{"x" * 20}"')
    assert await put(store, "a", f'"{"é" * 30}"') == 2
    assert await put(store, "b", f'"{"x" * 20}"') == 1
    await delete(store, "a")
    assert await put(store, "c", f'"{"x" * 70}"') == 1


async def test_writes_in_flight_are_bounded(store: WorkingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.memory.store.working_writes.MAX_IN_FLIGHT", 20_000)
    large = f'"{"x" * 4_000}"'
    results = await asyncio.gather(*(put(store, str(n), large) for n in range(10)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, ResourceExhausted)]
    assert refused and all(error.retry_delay for error in refused)
    assert len(await keys(store)) == 10 - len(refused) > 0
    assert await put(store, "later", large) == 1


async def test_scope_expires_a_month_after_its_last_write(store: WorkingStore, clock: Clock) -> None:
    await put(store, "old")
    await put(store, "old", scope="left")
    clock.now += RETENTION - 1
    await put(store, "new")
    clock.now += 2
    assert await keys(store) == {"new": 1, "old": 1}
    assert await keys(store, "left") == {}
    assert await store.value("t", "left", "old") is None
    assert await put(store, "other", scope="left") == 1
    assert await keys(store, "left") == {"other": 1}
    clock.now += RETENTION
    assert await put(store, "old") == 1
    assert await keys(store) == {"old": 1}


async def test_cancelled_caller_affects_no_other_write(store: WorkingStore) -> None:
    async with asyncio.timeout(60):
        cancelled = [asyncio.create_task(put(store, "k", str(number))) for number in range(10)]
        staying = asyncio.create_task(put(store, "other"))
        await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()
        assert await staying == 1
        assert await put(store, "k", "last") in range(1, 12)


async def test_a_watch_begins_with_the_values_and_goes_on_with_changes(store: WorkingStore) -> None:
    await put(store, "a.1")
    await put(store, "b.1")
    async with aclosing(store.watch("t", "s", "a.")) as batches:
        first = await anext(batches)
        assert ([value.key for value in first.values], first.is_current) == (["a.1"], True)
        await put(store, "b.2")
        await put(store, "a.2", "2", scope="other")
        await put(store, "a.2", "2", tenant="other")
        await put(store, "a.2", "3")
        changed = await anext(batches)
        assert [(value.key, value.value_json) for value in changed.values] == [("a.2", "3")]
        await delete(store, "a.1")
        assert (await anext(batches)).deleted == ("a.1",)


async def test_a_slow_reader_gets_the_last_versions_only(store: WorkingStore) -> None:
    async with aclosing(store.watch("t", "s")) as batches:
        assert (await anext(batches)).is_current
        for number in range(30):
            await put(store, f"k{number % 3}", str(number))
        await put(store, "gone")
        await delete(store, "gone")
        batch = await anext(batches)
        assert {value.key: (value.value_json, value.version) for value in batch.values} == {
            "k0": ("27", 10),
            "k1": ("28", 10),
            "k2": ("29", 10),
        }
        assert batch.deleted == (), "the reader never had it"


async def test_a_change_while_the_values_are_read_is_not_lost(store: WorkingStore) -> None:
    for number in range(1_500):
        await put(store, f"k{number:04}")
    async with aclosing(store.watch("t", "s")) as batches:
        first = await anext(batches)
        assert (len(first.values), first.is_current) == (1_000, False)
        await put(store, "k0000", "2")  # of the page that was sent
        await put(store, "k1499", "2")  # of the page that follows
        await delete(store, "k0001")
        second = await anext(batches)
        assert (len(second.values), second.values[-1].version, second.is_current) == (500, 2, True)
        third = await anext(batches)
        assert ([(value.key, value.version) for value in third.values], third.deleted) == ([("k0000", 2)], ("k0001",))


async def test_watches_are_bounded_and_end_with_the_service(
    store: WorkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_watches, "MAX_WATCHES", 1)
    async with aclosing(store.watch("t", "s")) as batches:
        await anext(batches)
        with pytest.raises(ResourceExhausted, match="too many watches"):
            await anext(store.watch("t", "s"))
        store.end_watches(Unavailable("stopping"))
        with pytest.raises(Unavailable):
            await anext(batches)
    with pytest.raises(Unavailable):
        async for batch in store.watch("t", "s"):
            assert batch.is_current


async def test_large_values_are_divided_into_batches(store: WorkingStore) -> None:
    large = '"' + "x" * 1_000_000 + '"'
    for number in range(6):
        await put(store, f"k{number}", large)
    seen: list[str] = []
    async with aclosing(store.watch("t", "s")) as batches:
        async for batch in batches:
            assert sum(len(value.value_json) for value in batch.values) <= value_watches.MAX_BATCH_BYTES
            seen += [value.key for value in batch.values]
            if batch.is_current:
                break
        assert seen == [f"k{number}" for number in range(6)]
