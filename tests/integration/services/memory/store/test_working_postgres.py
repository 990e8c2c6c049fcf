"""Working memory in PostgreSQL: lost connections, a frozen server."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import Aborted, Unavailable
from archon_services.memory.domain.working import Write
from archon_services.memory.store.postgres import PostgresStore
from archon_services.postgres.connections import DEADLINE
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.waiting import eventually
from tests.integration.services.memory.store.test_postgres import behind_proxy
from tests.integration.services.memory.store.test_working_stores import delete, keys, put


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_write_on_a_lost_connection_never_conflicts_with_itself(
    postgres: PostgresServer, postgres_dsn: str, answered: bool
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (memory, proxy):
        store = memory.working
        assert await put(store, "k", "1", 0) == 1
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=answered)
        writing = asyncio.create_task(put(store, "k", "2", 1))
        await asyncio.wait_for(lost.wait(), 60)
        assert not writing.done()
        proxy.refuse = False
        assert await writing == 2
        assert await put(store, "k", "3", 2) == 3
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=answered)
        deleting = asyncio.create_task(delete(store, "k", 3))
        await asyncio.wait_for(lost.wait(), 60)
        proxy.refuse = False
        assert await deleting
        assert await keys(store) == {}


async def test_next_write_sees_an_abandoned_write_that_was_committed(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (memory, proxy):
        store = memory.working
        assert await put(store, "k") == 1
        monkeypatch.setattr("archon_services.postgres.group_commit.DEADLINE", 0.5)
        proxy.lose(lambda data: b"COMMIT" in data, answered=True)
        with pytest.raises(Unavailable, match="is unknown"):
            await put(store, "k", "2", 1)
        proxy.refuse = False
        with pytest.raises(Aborted):
            await put(store, "k", "3", 1)
        assert await put(store, "k", "3", 2) == 3


@pytest.mark.slow
async def test_frozen_server_is_unavailable_in_time_and_recovers(
    fresh_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(fresh_postgres.dsn()) as memory:
        store = memory.working
        await put(store, "k")
        for module in ("group_commit", "connections"):
            monkeypatch.setattr(f"archon_services.postgres.{module}.STATEMENT_TIMEOUT", 0.3)
            monkeypatch.setattr(f"archon_services.postgres.{module}.DEADLINE", 0.5)
        fresh_postgres.freeze()
        calls = (put(store, "k", "2"), store.value("t", "s", "k"), store.values("t", "s"))
        async with asyncio.timeout(DEADLINE):  # the limit that is not shortened
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, Unavailable) and result.retry_delay, result
        fresh_postgres.thaw()

        async def written() -> bool:
            try:
                return await put(store, "k", "3") is not None
            except Unavailable:
                return False

        await eventually(written, 60)
    with pytest.raises(Unavailable):
        await store.write(Write("t", "s", "k", "4"))
