"""What SQLite does for a scope does not grow with the other scopes of the shared memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from archon_services.memory.domain.items import NewItem, Publish
from archon_services.memory.domain.working import Write
from archon_services.memory.store.sqlite.store import SqliteStore
from tests.fixtures.memory_store import Clock
from tests.fixtures.sqlite_instructions import instructions

FEW, MANY = 30, 2_000
DEPTH = 1.5
"""What a tree that is a hundred times as large may cost more."""


async def fill(store: SqliteStore, scopes: int) -> None:
    for number in range(scopes):
        item = NewItem("designer", "text", run_id=f"r{number}", epoch=1, seq=2)
        await store.publish(Publish("t", f"s{number}", (item,), f"request-{number}", b"x"))
        await store.working.write(Write("t", f"s{number}", "key", "1"))


async def publishing(store: SqliteStore) -> None:
    item = NewItem("designer", "text", run_id="r", epoch=1, seq=2)
    await store.publish(Publish("t", "new", (item,), "request", b"x"))
    await store.publish(Publish("t", "new", (NewItem("designer", "text", run_id="r", epoch=1, seq=5),), "more", b"y"))


async def reading(store: SqliteStore) -> None:
    assert len(await store.items("t", "s7")) == 1


async def clearing(store: SqliteStore) -> None:
    assert await store.clear("t", "s7") == 1


async def working_values(store: SqliteStore) -> None:
    await store.working.write(Write("t", "new", "key", "1"))
    assert await store.working.value("t", "s7", "key") is not None


@pytest.mark.parametrize("work", [publishing, reading, clearing, working_values])
async def test_work_for_one_scope_does_not_grow_with_the_others(
    work: Callable[[SqliteStore], Awaitable[None]], tmp_path: Path
) -> None:
    counts = []
    for scopes in (FEW, MANY):
        async with SqliteStore(tmp_path / f"{scopes}.db", clock=Clock(), sync="normal") as store:
            await fill(store, scopes)
            counts.append(await instructions(work(store), store._db))
    few, many = counts
    assert few > 0
    assert many <= few * DEPTH, f"{few} instructions beside {FEW} scopes, {many} beside {MANY}"
