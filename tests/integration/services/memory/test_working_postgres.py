"""What is the PostgreSQL store's own of working memory: lost answers, a server that freezes."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import Aborted, Unavailable
from archon_services.memory.domain.working import Write
from archon_services.memory.store.postgres import PostgresStore
from tests.fixtures.postgres import PostgresServer
from tests.integration.services.memory.test_postgres import behind_proxy
from tests.integration.services.memory.test_working_stores import delete, keys, put


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_a_write_whose_connection_died_does_not_find_itself_in_its_way(
    postgres: PostgresServer, postgres_dsn: str, answered: bool
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (whole, proxy):
        store = whole.working
        assert await put(store, "k", "1", 0) == 1
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=answered)
        writing = asyncio.create_task(put(store, "k", "2", 1))
        await asyncio.wait_for(lost.wait(), 5)
        assert not writing.done()
        proxy.refuse = False
        assert await writing == 2
        assert await put(store, "k", "3", 2) == 3
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=answered)
        deleting = asyncio.create_task(delete(store, "k", 3))
        await asyncio.wait_for(lost.wait(), 5)
        proxy.refuse = False
        assert await deleting
        assert await keys(store) == {}


async def test_a_write_that_was_given_up_may_be_durable_and_is_seen_by_the_next(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (whole, proxy):
        store = whole.working
        assert await put(store, "k") == 1
        monkeypatch.setattr("archon_services.postgres.group_commit.DEADLINE", 0.5)
        proxy.lose(lambda data: b"COMMIT" in data, answered=True)
        with pytest.raises(Unavailable, match="isn't known"):
            await put(store, "k", "2", 1)
        proxy.refuse = False
        with pytest.raises(Aborted):
            await put(store, "k", "3", 1)
        assert await put(store, "k", "3", 2) == 3


async def test_a_frozen_server_is_unavailable_in_time_and_comes_back(
    fresh_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(fresh_postgres.dsn()) as whole:
        store = whole.working
        await put(store, "k")
        for module in ("group_commit", "connections"):
            monkeypatch.setattr(f"archon_services.postgres.{module}.STATEMENT_TIMEOUT", 0.5)
            monkeypatch.setattr(f"archon_services.postgres.{module}.DEADLINE", 1.0)
        fresh_postgres.freeze()
        calls = (put(store, "k", "2"), store.value("t", "s", "k"), store.values("t", "s"))
        async with asyncio.timeout(5):
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, Unavailable) and result.retry_delay, result
        fresh_postgres.thaw()
        async with asyncio.timeout(10):
            while True:
                try:
                    await put(store, "k", "3")
                    break
                except Unavailable:
                    await asyncio.sleep(0.1)
    with pytest.raises(Unavailable):
        await store.write(Write("t", "s", "k", "4"))
