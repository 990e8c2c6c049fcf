"""What is the PostgreSQL store's own: lost answers, a server that dies, one service at a time, migrations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon_services.memory.domain.working import Write
from archon_services.memory.store.port import NewItem, Publish, Published, StoredItem
from archon_services.memory.store.postgres import PostgresStore
from archon_services.memory.store.postgres.statements import SCHEMA
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.migrations import VERSION_TABLE, alembic_config, migrate
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.tcp_proxy import TcpProxy
from tests.integration.services.memory.test_stores import DAY, Clock, clock, contents, publish

__all__ = ["clock"]

REVISIONS = [revision.revision for revision in ScriptDirectory.from_config(alembic_config(SCHEMA)).walk_revisions()]
DATA = Path(__file__).parent / "revisions"


@asynccontextmanager
async def behind_proxy(server: PostgresServer, dsn: str) -> AsyncIterator[tuple[PostgresStore, TcpProxy]]:
    database = dsn.rpartition("/")[2]
    async with TcpProxy(server.port) as proxy, PostgresStore(server.dsn(database, port=proxy.port)) as store:
        yield store, proxy


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_a_publish_whose_connection_died_is_published_once_and_told_once(
    postgres: PostgresServer, postgres_dsn: str, answered: bool
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (store, proxy), aclosing(store.watch("t", "s")) as news:
        await anext(news)
        assert await publish(store, NewItem("a", "first")) == [Published("a", 1)]
        await anext(news)
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=answered)
        publishing = asyncio.create_task(publish(store, NewItem("a", "second")))
        await asyncio.wait_for(lost.wait(), 5)
        assert not publishing.done()
        proxy.refuse = False
        assert await publishing == [Published("a", 2)]
        assert [one.item.version for one in await anext(news)] == [2]
        assert await publish(store, NewItem("a", "third")) == [Published("a", 3)]
        assert [one.item.version for one in await anext(news)] == [3]


async def test_watchers_hear_of_a_publish_that_was_given_up_and_turns_out_to_be_durable(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind_proxy(postgres, postgres_dsn) as (store, proxy), aclosing(store.watch("t", "s")) as news:
        await anext(news)
        monkeypatch.setattr("archon_services.postgres.group_commit.DEADLINE", 0.5)
        lost = proxy.lose(lambda data: b"COMMIT" in data, answered=True)
        with pytest.raises(Unavailable, match="isn't known"):
            await publish(store, NewItem("a", "second"))
        assert lost.is_set()
        proxy.refuse = False
        assert await publish(store, NewItem("b", "x")) == [Published("b", 1)]
        told: list[StoredItem] = []
        while len(told) < 2:
            told += await asyncio.wait_for(anext(news), 5)
        assert [(one.item.source_id, one.item.version) for one in told] == [("a", 1), ("b", 1)]


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(fresh_postgres: PostgresServer) -> None:
    async with PostgresStore(fresh_postgres.dsn()) as store:
        acknowledged = dict.fromkeys("abcde", 0)
        stop = asyncio.Event()

        async def work(role: str) -> None:
            while not stop.is_set():
                try:
                    (one,) = await publish(store, NewItem(role, "x"))
                    assert one.version > acknowledged[role]
                    acknowledged[role] = one.version
                except Unavailable:
                    await asyncio.sleep(0.05)

        working = [asyncio.create_task(work(role)) for role in acknowledged]
        await asyncio.sleep(0.3)
        await asyncio.to_thread(fresh_postgres.kill)
        before = dict(acknowledged)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(fresh_postgres.start)
        async with asyncio.timeout(15):
            while any(acknowledged[role] <= before[role] for role in before):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        stop.set()
        await asyncio.gather(*working)
        stands = {one.item.source_id: one.item.version for one in await store.items("t", "s")}
        assert all(stands[role] >= version for role, version in acknowledged.items())


async def test_a_server_that_freezes_is_unavailable_in_time_and_comes_back(
    fresh_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(fresh_postgres.dsn()) as store:
        await publish(store, NewItem("a", "x"))
        for module in ("group_commit", "connections"):
            monkeypatch.setattr(f"archon_services.postgres.{module}.STATEMENT_TIMEOUT", 0.5)
            monkeypatch.setattr(f"archon_services.postgres.{module}.DEADLINE", 1.0)
        fresh_postgres.freeze()
        began = time.monotonic()
        calls = (publish(store, NewItem("a", "y")), store.items("t", "s"), store.clear("t", "other"))
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, Unavailable) and result.retry_delay, result
        assert time.monotonic() - began < 5.0
        fresh_postgres.thaw()
        async with asyncio.timeout(10):
            while True:
                try:
                    await publish(store, NewItem("b", "y"))
                    break
                except Unavailable:
                    await asyncio.sleep(0.1)


async def test_a_database_has_one_memory_service_at_a_time(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.memory.store.postgres.exclusive_lock.PATIENCE", 0.3)
    async with PostgresStore(postgres_dsn) as store:
        await publish(store, NewItem("a", "x"))
        with pytest.raises(FailedPrecondition, match="in use by another memory service"):
            await PostgresStore(postgres_dsn).__aenter__()
    async with PostgresStore(postgres_dsn) as store:
        assert await contents(store) == {"a": "x"}
    with pytest.raises(Unavailable):
        await store.items("t", "s")


async def test_a_service_whose_place_was_taken_says_so_and_writes_no_more(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.memory.store.postgres.exclusive_lock.INTERVAL", 0.1)
    async with behind_proxy(postgres, postgres_dsn) as (store, proxy), aclosing(store.watch("t", "s")) as news:
        await anext(news)
        proxy.refuse = True
        proxy.cut()
        async with PostgresStore(postgres_dsn) as other:
            await publish(other, NewItem("a", "theirs"))
            proxy.refuse = False
            with pytest.raises(Unavailable):
                await asyncio.wait_for(anext(news), 5)
            with pytest.raises(Unavailable, match="taken this one's place"):
                await publish(store, NewItem("a", "ours"))
            assert await contents(other) == {"a": "theirs"}


async def test_text_with_any_character_is_kept_and_a_name_that_cannot_be_is_refused_alone(postgres_dsn: str) -> None:
    async with PostgresStore(postgres_dsn) as store:
        good = [publish(store, NewItem(role, "a\0b", {"k": "\0"})) for role in "abc"]
        bad = store.publish(Publish("t", "\0", [NewItem("a", "x")]))
        results = await asyncio.gather(*good, bad, return_exceptions=True)
        assert isinstance(results[-1], InvalidArgument)
        assert await contents(store) == dict.fromkeys("abc", "a\0b")
        assert (await store.items("t", "s"))[0].item.metadata == {"k": "\0"}


async def test_items_come_in_the_order_in_which_they_were_published_last(postgres_dsn: str) -> None:
    async with PostgresStore(postgres_dsn) as store:
        await publish(store, *(NewItem(role, "x") for role in "cab"))
        assert list(await contents(store)) == ["c", "a", "b"]
        await publish(store, NewItem("c", "y"))
        await asyncio.gather(*(publish(store, NewItem(role, "z")) for role in "ba"))
        assert list(await contents(store)) == ["c", "b", "a"]


async def test_what_is_over_is_deleted_from_the_database_too(
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
async def test_a_store_of_each_revision_is_brought_to_the_newest_with_its_data(
    revision: str, postgres: PostgresServer, postgres_dsn: str
) -> None:
    await migrate(parse_dsn(postgres_dsn), SCHEMA, "test", to=revision)
    postgres.execute((DATA / f"{revision}.sql").read_text(), postgres_dsn.rpartition("/")[2])
    async with PostgresStore(postgres_dsn) as store:
        assert await store.structure() == "graph"
        assert await contents(store) == {"a": "text"}
        assert await publish(store, NewItem("forgotten", "again")) == [Published("forgotten", 4)]
        event = NewItem("a", "-", run_id="r", epoch=2, seq=4)
        assert await publish(store, event) == [Published("a", 7, True)]
        assert await store.publish(Publish("t", "s", [NewItem("a", "-")], "q", b"hash")) == [Published("a", 7)]
        stands = {one.key: one.version for one in (await store.working.values("t", "s"))[0]}
        assert stands == ({"k": 5} if revision >= "0002" else {})
        written = await store.working.write(Write("t", "s", "deleted", "1", 0))
        assert written is not None and written.version == (4 if revision >= "0002" else 1)


async def test_a_store_that_a_newer_version_wrote_is_refused(postgres: PostgresServer, postgres_dsn: str) -> None:
    await migrate(parse_dsn(postgres_dsn), SCHEMA, "test")
    newer = f"UPDATE {SCHEMA.name}.{VERSION_TABLE} SET version_num = '9999'"
    postgres.execute(newer, postgres_dsn.rpartition("/")[2])
    with pytest.raises(FailedPrecondition, match="newer version of Archon"):
        await PostgresStore(postgres_dsn).__aenter__()


def test_there_is_data_for_each_revision_of_the_store_and_the_newest_is_the_one_that_is_named() -> None:
    assert sorted(path.stem for path in DATA.glob("*.sql")) == sorted(REVISIONS)
    assert ScriptDirectory.from_config(alembic_config(SCHEMA)).get_current_head() == SCHEMA.head
