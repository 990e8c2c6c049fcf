"""Behaviour that every store of working memory must have: versions, expected versions, pages, bounds, expiry. Uses a
manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archon.errors import Aborted, ResourceExhausted
from archon_services.memory.domain import working
from archon_services.memory.domain.working import RETENTION, Value, Write
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
    return {one.key: one.version for one in page}


async def test_a_value_comes_back_with_its_version_and_its_time(store: WorkingStore, clock: Clock) -> None:
    assert await store.value("t", "s", "k") is None
    text = '{"naïve": ["𝄞", "\\u0000", 1.5, null]}'
    assert await put(store, "k", text) == 1
    clock.now += 5
    assert await put(store, "k", "2") == 2
    assert await put(store, "other", text) == 1
    assert await store.value("t", "s", "k") == Value("k", "2", 2, clock.now)
    assert await store.value("t", "s", "other") == Value("other", text, 1, clock.now)


async def test_scopes_and_tenants_are_apart(store: WorkingStore) -> None:
    await put(store, "k", "1")
    await put(store, "k", "2", scope="s2")
    await put(store, "k", "3", tenant="t2")
    for tenant, scope, value in (("t", "s", "1"), ("t", "s2", "2"), ("t2", "s", "3")):
        found = await store.value(tenant, scope, "k")
        assert found is not None and (found.value_json, found.version) == (value, 1)
    assert await store.value("t2", "s2", "k") is None


async def test_versions_go_on_after_a_delete(store: WorkingStore) -> None:
    assert [await put(store, "k"), await put(store, "k")] == [1, 2]
    assert await delete(store, "k")
    assert await store.value("t", "s", "k") is None
    assert await keys(store) == {}
    assert not await delete(store, "k")
    assert not await delete(store, "never written")
    assert await put(store, "k") == 3


async def test_where_another_version_stands_nothing_is_written(store: WorkingStore) -> None:
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
    assert not await delete(store, "k", 2)  # none there is no error
    with pytest.raises(Aborted) as refused:
        await put(store, "k", "3", 2)
    assert refused.value.metadata["version"] == "0"
    assert await put(store, "k", "3", 0) == 3


async def test_of_concurrent_writers_that_expect_the_same_version_one_wins_and_the_others_hurt_nobody(
    store: WorkingStore,
) -> None:
    done = await asyncio.gather(
        *(put(store, "k", str(number), 0) for number in range(20)),
        *(put(store, f"other {number}") for number in range(20)),
        return_exceptions=True,
    )
    assert [one for one in done[:20] if not isinstance(one, Aborted)] == [1]
    assert done[20:] == [1] * 20
    assert (await keys(store))["k"] == 1


async def test_writes_to_one_key_at_once_get_a_version_each(store: WorkingStore) -> None:
    versions = await asyncio.gather(*(put(store, "k", str(number)) for number in range(50)))
    assert sorted(versions) == list(range(1, 51))
    found = await store.value("t", "s", "k")
    assert found is not None and versions[int(found.value_json)] == found.version == 50


async def test_pages_go_by_key_in_the_order_of_code_points(store: WorkingStore) -> None:
    names = ["B", "a", "a%", "a_b", "aa", "ab", "b", "é", "\uffff", "𝄞"]
    for name in reversed(names):
        await put(store, name)
    await put(store, "ac")
    await delete(store, "ac")
    found: list[str] = []
    after = ""
    while True:
        page, more = await store.values("t", "s", after=after, limit=3)
        found += [one.key for one in page]
        if not more:
            break
        assert len(page) == 3
        after = page[-1].key
    assert found == names
    assert await store.values("t", "s", after="𝄞") == ([], False)
    for prefix in ("a", "a_", "a%", "b", "z", "é"):
        page, more = await store.values("t", "s", prefix=prefix)
        assert ([one.key for one in page], more) == ([name for name in names if name.startswith(prefix)], False)
    page, more = await store.values("t", "s", prefix="a", after="a_b", limit=1)
    assert ([one.key for one in page], more) == (["aa"], True)
    page, more = await store.values("t", "s", limit=len(names))
    assert (len(page), more) == (len(names), False)


async def test_a_page_of_large_values_is_cut_short(store: WorkingStore) -> None:
    large = f'"{"x" * 1_000_000}"'
    for number in range(7):
        await put(store, str(number), large)
    page, more = await store.values("t", "s")
    assert ([one.key for one in page], more) == (["0", "1", "2", "3", "4"], True)
    page, more = await store.values("t", "s", after="4")
    assert ([one.key for one in page], more) == (["5", "6"], False)


async def test_keys_of_a_scope_have_a_bound_and_what_stands_can_still_be_written(
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


async def test_values_of_a_scope_have_a_bound_in_bytes(store: WorkingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "MAX_SCOPE_BYTES", 100)
    await put(store, "a", f'"{"é" * 40}"')  # 82 bytes
    with pytest.raises(ResourceExhausted):
        await put(store, "b", f'"{"x" * 20}"')
    assert await put(store, "a", f'"{"é" * 30}"') == 2
    assert await put(store, "b", f'"{"x" * 20}"') == 1
    await delete(store, "a")
    assert await put(store, "c", f'"{"x" * 70}"') == 1


async def test_writes_under_way_have_a_bound(store: WorkingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.memory.store.working_writes.MAX_IN_FLIGHT", 20_000)
    large = f'"{"x" * 4_000}"'
    done = await asyncio.gather(*(put(store, str(n), large) for n in range(10)), return_exceptions=True)
    refused = [one for one in done if isinstance(one, ResourceExhausted)]
    assert refused and all(one.retry_delay for one in refused)
    assert len(await keys(store)) == 10 - len(refused) > 0
    assert await put(store, "later", large) == 1


async def test_a_scope_is_forgotten_whole_a_month_after_its_last_write(store: WorkingStore, clock: Clock) -> None:
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


async def test_a_caller_that_goes_away_takes_its_write_with_it_or_not_and_hurts_nobody(store: WorkingStore) -> None:
    async with asyncio.timeout(5):
        gone = [asyncio.create_task(put(store, "k", str(number))) for number in range(10)]
        staying = asyncio.create_task(put(store, "other"))
        await asyncio.sleep(0)
        for one in gone:
            one.cancel()
        assert await staying == 1
        assert await put(store, "k", "last") in range(1, 12)
