"""The PostgreSQL store: lost connections, a server that dies, one service at a time, migrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon_services.memory.domain.items import NewItem, Publish, Published, StoredItem
from archon_services.memory.domain.working import Write
from archon_services.memory.store.postgres import PostgresStore
from archon_services.memory.store.postgres.schema import SCHEMA
from archon_services.postgres.connections import DEADLINE
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.migrations import VERSION_TABLE, alembic_config, migrate
from tests.fixtures.memory_store import DAY, Clock, clock, contents, publish
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.servers import empty_postgres_dsn
from tests.fixtures.tcp_proxy import TcpProxy
from tests.fixtures.waiting import eventually, until

__all__ = ["clock", "empty_postgres_dsn"]

REVISIONS = [revision.revision for revision in ScriptDirectory.from_config(alembic_config(SCHEMA)).walk_revisions()]
DATA = Path(__file__).parent / "revisions"


@asynccontextmanager
async def behind_proxy(server: PostgresServer, dsn: str) -> AsyncIterator[tuple[PostgresStore, TcpProxy]]:
    database = dsn.rpartition("/")[2]
    async with TcpProxy(server.port) as proxy, PostgresStore(server.dsn(database, port=proxy.port)) as store:
        yield store, proxy


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_publish_on_a_lost_connection_is_published_once(
    postgres: PostgresServer, postgres_dsn: str, answered: bool
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (store, proxy), aclosing(store.watch("t", "s")) as batches:
        await anext(batches)
        assert await publish(store, NewItem("a", "first")) == [Published("a", 1)]
        await anext(batches)
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=answered)
        publishing = asyncio.create_task(publish(store, NewItem("a", "second")))
        await asyncio.wait_for(lost.wait(), 60)
        assert not publishing.done()
        proxy.refuse = False
        assert await publishing == [Published("a", 2)]
        assert [entry.item.version for entry in await anext(batches)] == [2]
        assert await publish(store, NewItem("a", "third")) == [Published("a", 3)]
        assert [entry.item.version for entry in await anext(batches)] == [3]


async def test_watchers_see_an_abandoned_publish_that_was_committed(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (store, proxy), aclosing(store.watch("t", "s")) as batches:
        await anext(batches)
        monkeypatch.setattr("archon_services.postgres.group_commit.DEADLINE", 0.5)
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=True)
        with pytest.raises(Unavailable, match="is unknown"):
            await publish(store, NewItem("a", "second"))
        assert lost.is_set()
        proxy.refuse = False
        assert await publish(store, NewItem("b", "x")) == [Published("b", 1)]
        received: list[StoredItem] = []
        while len(received) < 2:
            received += await asyncio.wait_for(anext(batches), 60)
        assert [(entry.item.source_id, entry.item.version) for entry in received] == [("a", 1), ("b", 1)]


@pytest.mark.slow
async def test_killed_server_loses_no_acknowledged_publish(fresh_postgres: PostgresServer) -> None:
    async with PostgresStore(fresh_postgres.dsn()) as store:
        acknowledged = dict.fromkeys("abcde", 0)
        stop = asyncio.Event()

        async def work(role: str) -> None:
            while not stop.is_set():
                try:
                    (result,) = await publish(store, NewItem(role, "x"))
                    assert result.version > acknowledged[role]
                    acknowledged[role] = result.version
                except Unavailable as error:
                    await asyncio.sleep((error.retry_delay or 1.0) / 20)

        working = [asyncio.create_task(work(role)) for role in acknowledged]
        await until(lambda: min(acknowledged.values()) > 3)
        await asyncio.to_thread(fresh_postgres.kill)
        before = dict(acknowledged)
        await asyncio.to_thread(fresh_postgres.start)  # publishes are refused meanwhile
        await until(lambda: all(acknowledged[role] > before[role] for role in before), 60)
        stop.set()
        await asyncio.gather(*working)
        stored = {entry.item.source_id: entry.item.version for entry in await store.items("t", "s")}
        assert all(stored[role] >= version for role, version in acknowledged.items())


@pytest.mark.slow
async def test_frozen_server_is_unavailable_in_time_and_recovers(
    fresh_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(fresh_postgres.dsn()) as store:
        await publish(store, NewItem("a", "x"))
        for module in ("group_commit", "connections"):
            monkeypatch.setattr(f"archon_services.postgres.{module}.STATEMENT_TIMEOUT", 0.3)
            monkeypatch.setattr(f"archon_services.postgres.{module}.DEADLINE", 0.5)
        fresh_postgres.freeze()
        calls = (publish(store, NewItem("a", "y")), store.items("t", "s"), store.clear("t", "other"))
        async with asyncio.timeout(DEADLINE):  # the limit that is not shortened
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, Unavailable) and result.retry_delay, result
        fresh_postgres.thaw()

        async def published() -> bool:
            try:
                return bool(await publish(store, NewItem("b", "y")))
            except Unavailable:
                return False

        await eventually(published, 60)


async def test_database_has_one_memory_service_at_a_time(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.memory.store.postgres.exclusive_lock.ACQUIRE_TIMEOUT", 0.3)
    async with PostgresStore(postgres_dsn) as store:
        await publish(store, NewItem("a", "x"))
        with pytest.raises(FailedPrecondition, match="in use by another memory service"):
            await PostgresStore(postgres_dsn).__aenter__()
    async with PostgresStore(postgres_dsn) as store:
        assert await contents(store) == {"a": "x"}
    with pytest.raises(Unavailable):
        await store.items("t", "s")


async def test_service_that_lost_its_lock_refuses_writes(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.memory.store.postgres.exclusive_lock.CHECK_INTERVAL", 0.1)
    async with behind_proxy(postgres, postgres_dsn) as (store, proxy), aclosing(store.watch("t", "s")) as batches:
        await anext(batches)
        proxy.refuse = True
        proxy.cut()
        async with PostgresStore(postgres_dsn) as other:
            await publish(other, NewItem("a", "theirs"))
            proxy.refuse = False
            with pytest.raises(Unavailable):
                await asyncio.wait_for(anext(batches), 60)
            with pytest.raises(Unavailable, match="taken over the database"):
                await publish(store, NewItem("a", "ours"))
            assert await contents(other) == {"a": "theirs"}


async def test_any_text_is_stored_and_an_invalid_name_refused_alone(postgres_dsn: str) -> None:
    async with PostgresStore(postgres_dsn) as store:
        good = [publish(store, NewItem(role, "a\0b", {"k": "\0"})) for role in "abc"]
        bad = store.publish(Publish("t", "\0", [NewItem("a", "x")]))
        results = await asyncio.gather(*good, bad, return_exceptions=True)
        assert isinstance(results[-1], InvalidArgument)
        assert await contents(store) == dict.fromkeys("abc", "a\0b")
        assert (await store.items("t", "s"))[0].item.metadata == {"k": "\0"}


async def test_items_come_in_the_order_of_their_last_publish(postgres_dsn: str) -> None:
    async with PostgresStore(postgres_dsn) as store:
        await publish(store, *(NewItem(role, "x") for role in "cab"))
        assert list(await contents(store)) == ["c", "a", "b"]
        await publish(store, NewItem("c", "y"))
        await asyncio.gather(*(publish(store, NewItem(role, "z")) for role in "ba"))
        assert list(await contents(store)) == ["c", "b", "a"]


async def test_expired_rows_are_deleted_from_the_database(
    postgres: PostgresServer, postgres_dsn: str, clock: Clock
) -> None:
    database = postgres_dsn.rpartition("/")[2]
    count = "SELECT count(*) FROM archon_memory."
    async with PostgresStore(postgres_dsn, clock=clock) as store:
        for number in range(30):
            await publish(store, NewItem("a", "x", run_id="r", epoch=1, seq=number + 1), request_id=str(number))
            await publish(store, NewItem("b", "x", run_id=f"r{number}", epoch=1, seq=1, ttl=5.0))
        clock.now += DAY + 1
        await publish(store, NewItem("c", "x"))
        assert postgres.execute(f"{count}requests; {count}publications", database).split() == ["0", "31"]
        assert list(await contents(store)) == ["a", "c"]
        clock.now += 31 * DAY
        await publish(store, NewItem("c", "x"))
        assert postgres.execute(f"{count}publications", database) == "0"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_store_of_each_revision_is_migrated_with_its_data(
    revision: str, postgres: PostgresServer, empty_postgres_dsn: str
) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test", to=revision)
    postgres.execute((DATA / f"{revision}.sql").read_text(), empty_postgres_dsn.rpartition("/")[2])
    async with PostgresStore(empty_postgres_dsn) as store:
        assert await store.load_role_graph() == "graph"
        assert await contents(store) == {"a": "text"}
        assert await publish(store, NewItem("forgotten", "again")) == [Published("forgotten", 4)]
        event = NewItem("a", "-", run_id="r", epoch=2, seq=4)
        assert await publish(store, event) == [Published("a", 7, True)]
        assert await store.publish(Publish("t", "s", [NewItem("a", "-")], "q", b"hash")) == [Published("a", 7)]
        versions = {value.key: value.version for value in (await store.working.values("t", "s"))[0]}
        assert versions == ({"k": 5} if revision >= "0002" else {})
        written = await store.working.write(Write("t", "s", "deleted", "1", 0))
        assert written is not None and written.version == (4 if revision >= "0002" else 1)


async def test_store_of_a_newer_version_is_refused(postgres: PostgresServer, empty_postgres_dsn: str) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test")
    newer = f"UPDATE {SCHEMA.name}.{VERSION_TABLE} SET version_num = '9999', compatible_from = '9998'"
    postgres.execute(newer, empty_postgres_dsn.rpartition("/")[2])
    with pytest.raises(FailedPrecondition, match="newer version of Archon"):
        await PostgresStore(empty_postgres_dsn).__aenter__()


def test_each_revision_has_test_data_and_head_is_the_newest() -> None:
    assert sorted(path.stem for path in DATA.glob("*.sql")) == sorted(REVISIONS)
    assert ScriptDirectory.from_config(alembic_config(SCHEMA)).get_current_head() == SCHEMA.head
