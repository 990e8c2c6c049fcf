"""Several orchestrators with one PostgreSQL journal, and connections that are lost during a write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from archon.errors import InvalidArgument, ResourceExhausted, Unavailable
from archon_services.orchestrator.journal import Outcome, SameRequest
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.postgres import connections
from tests.fixtures.journal import create, event, step, store, stored_events
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.tcp_proxy import TcpProxy
from tests.fixtures.waiting import run_ready_tasks, until


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresJournal]:
    journal = PostgresJournal(dsn)
    await journal.open()
    try:
        yield journal
    finally:
        await journal.close()


@pytest.fixture
async def two(postgres_dsn: str) -> AsyncIterator[tuple[PostgresJournal, PostgresJournal]]:
    """The journals of two processes with one database."""
    async with opened(postgres_dsn) as first, opened(postgres_dsn) as second:
        yield first, second


@pytest.fixture
async def proxied(
    postgres: PostgresServer, postgres_dsn: str
) -> AsyncIterator[tuple[PostgresJournal, TcpProxy, PostgresJournal]]:
    """A journal behind a proxy, the proxy, and a journal with a direct connection."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(TcpProxy(postgres.port))
        database = postgres_dsn.rpartition("/")[2]
        behind = await stack.enter_async_context(opened(postgres.dsn(database, port=proxy.port)))
        yield behind, proxy, await stack.enter_async_context(opened(postgres_dsn))


Two = tuple[PostgresJournal, PostgresJournal]
Proxied = tuple[PostgresJournal, TcpProxy, PostgresJournal]

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


async def test_durability_3_a_run_that_a_replica_claimed_is_deposed(two: Two) -> None:
    first, second = two
    await create(first, "r")
    claimed = await second.claim("r", "second")
    assert claimed is not None and claimed.epoch == 2
    assert await store(first, step("r", 1, epoch=1, batch="first")) is Outcome.DEPOSED
    assert await store(second, step("r", 1, epoch=2, batch="second")) is Outcome.DONE
    assert await store(first, step("r", 2, epoch=1, batch="first again")) is Outcome.DEPOSED
    assert len(await stored_events(first, "r")) == 2


async def test_concurrent_claims_of_a_run_get_different_epochs(two: Two) -> None:
    first, second = two
    await create(first, "r")
    rows = await asyncio.gather(*(journal.claim("r", f"owner {n}") for n in range(5) for journal in two))
    epochs = sorted(row.epoch for row in rows if row is not None)
    assert epochs == list(range(2, 2 + len(epochs))) and epochs
    row = await second.run("r")
    assert row is not None and row.epoch == epochs[-1]


async def test_durability_9_a_claim_behind_a_live_owners_takes_nothing(
    postgres: PostgresServer, postgres_dsn: str, two: Two
) -> None:
    journal = two[0]
    await create(journal, "r")
    database = postgres_dsn.rpartition("/")[2]
    async with postgres.connection(database) as connection:
        async with connection.transaction():
            await connection.execute("INSERT INTO archon_journal.owners VALUES ('other', 'host:1', 1, 0)")
            await connection.execute("UPDATE archon_journal.runs SET owner = 'other', epoch = 2")
            claiming = asyncio.create_task(journal.claim("r", "me"))
            await until(lambda: postgres.execute(WAITING, database) == "1")
            assert not claiming.done()
        assert await claiming is None
    row = await journal.run("r")
    assert row is not None and (row.owner, row.epoch) == ("other", 2)


async def test_creations_of_one_request_in_two_processes_make_one_run(two: Two) -> None:
    for round in range(20):
        creations = [
            create(journal, f"{name}-{round}-{n}", f"q{round}")
            for name, journal in zip("ab", two, strict=True)
            for n in range(3)
        ]
        results = await asyncio.gather(*creations)
        others = [result for result in results if isinstance(result, SameRequest)]
        assert len(set(others)) == 1 and results.count(Outcome.DONE) == 1 == len(results) - len(others)
    assert len(await two[0].open_runs()) == 20


async def test_request_ids_in_opposite_orders_do_not_deadlock(two: Two) -> None:
    first, second = two
    names = [f"q{n}" for n in range(40)]
    results = await asyncio.gather(
        *(create(first, f"a-{name}", name) for name in names),
        *(create(second, f"b-{name}", name) for name in reversed(names)),
    )
    others = {result.run_id for result in results if isinstance(result, SameRequest)}
    assert len(others) == 40 and {run_id[2:] for run_id in others} == set(names)
    assert results.count(Outcome.DONE) == 40


async def test_of_concurrent_steps_of_one_owner_one_is_stored(two: Two) -> None:
    first, second = two
    await create(first, "r")
    outcomes = await asyncio.gather(
        *(store(journal, step("r", 1, batch=f"{n}")) for n, journal in enumerate([first, first, second, second]))
    )
    assert (outcomes.count(Outcome.DONE), outcomes.count(Outcome.STALE)) == (1, 3)
    assert len(await stored_events(first, "r")) == 2


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_durability_3_a_step_with_lost_connection_is_stored_once(proxied: Proxied, answered: bool) -> None:
    behind, proxy, direct = proxied
    await create(behind, "r")
    lost = proxy.lose(lambda data: b"the batch" in data, answered=answered)
    appending = asyncio.create_task(store(behind, step("r", 1, 3, batch="the batch")))
    await asyncio.wait_for(lost.wait(), 60)
    if answered:
        assert len(await stored_events(direct, "r")) == 4, "the step is committed, but its answer was lost"
    assert not appending.done()
    proxy.refuse = False
    assert await appending is Outcome.DONE
    assert await stored_events(direct, "r") == [event("r", seq) for seq in range(1, 5)]
    assert await store(behind, step("r", 4)) is Outcome.DONE


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_durability_3_a_claim_during_a_lost_connection_deposes(proxied: Proxied, answered: bool) -> None:
    behind, proxy, direct = proxied
    await create(behind, "r")
    lost = proxy.lose(lambda data: b"the batch" in data, answered=answered)
    appending = asyncio.create_task(store(behind, step("r", 1, batch="the batch")))
    await asyncio.wait_for(lost.wait(), 60)
    assert await direct.claim("r", "another") is not None
    proxy.refuse = False
    assert await appending is Outcome.DEPOSED
    assert len(await stored_events(direct, "r")) == (2 if answered else 1)


async def test_durability_3_a_step_during_a_lost_connection_is_stale(
    proxied: Proxied,
) -> None:
    behind, proxy, direct = proxied
    await create(behind, "r")
    lost = proxy.lose(lambda data: b"the batch" in data, answered=False)
    appending = asyncio.create_task(store(behind, step("r", 1, batch="the batch")))
    await asyncio.wait_for(lost.wait(), 60)
    assert await store(direct, step("r", 1, batch="another")) is Outcome.DONE
    proxy.refuse = False
    assert await appending is Outcome.STALE


@pytest.mark.parametrize("request_id", ["", "q"])
@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_durability_3_a_run_with_lost_connection_is_made_once(
    proxied: Proxied, answered: bool, request_id: str
) -> None:
    behind, proxy, direct = proxied
    lost = proxy.lose(lambda data: b"the run" in data, answered=answered)
    creating = asyncio.create_task(create(behind, "the run", request_id))
    await asyncio.wait_for(lost.wait(), 60)
    proxy.refuse = False
    assert await creating is Outcome.DONE
    assert await direct.open_runs() == ["the run"]
    if request_id:
        assert await create(direct, "x", request_id) == SameRequest("the run")


async def test_reads_are_repeated_if_their_connection_is_lost(proxied: Proxied) -> None:
    behind, proxy, _ = proxied
    await create(behind, "r")
    for _ in range(5):
        assert await behind.open_runs() == ["r"]
        proxy.cut()
    await asyncio.gather(*(behind.steps("r") for _ in range(10)))


@pytest.mark.search
async def test_durability_3_a_group_that_fails_is_tried_run_by_run(
    postgres: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = f"'lock_timeout', '{connections.LOCK_TIMEOUT * 1000:.0f}'"
    assert limit in connections._SESSION
    monkeypatch.setattr(connections, "_SESSION", connections._SESSION.replace(limit, "'lock_timeout', '200'"))
    async with opened(postgres_dsn) as journal:
        await asyncio.gather(*(create(journal, f"r{n}") for n in range(10)))
        async with postgres.connection(postgres_dsn.rpartition("/")[2]) as connection, connection.transaction():
            await connection.execute("SELECT 1 FROM archon_journal.runs WHERE run_id = 'r3' FOR UPDATE")
            outcomes = await asyncio.gather(
                *(store(journal, step(f"r{n}", 1, changed=True)) for n in range(10)), return_exceptions=True
            )
        assert [n for n, outcome in enumerate(outcomes) if outcome is not Outcome.DONE] == [3]
        assert isinstance(outcomes[3], Unavailable) and outcomes[3].retry_delay
        assert await store(journal, step("r3", 1)) is Outcome.DONE


async def test_a_value_that_postgresql_refuses_fails_its_run_alone(two: Two) -> None:
    journal = two[0]
    good = [create(journal, f"r{n}") for n in range(10)]
    results = await asyncio.gather(create(journal, "bad", "a\0b"), *good, return_exceptions=True)
    assert isinstance(results[0], InvalidArgument)
    assert len(await journal.open_runs()) == 10
    with pytest.raises(InvalidArgument):
        await journal.runs(tenant="default", session_id="\0")


async def test_the_queue_for_the_database_has_a_bound(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.postgres.group_commit.MAX_WAITING", 5)
    journal = two[0]
    results = await asyncio.gather(*(create(journal, f"r{n}") for n in range(50)), return_exceptions=True)
    refused = [error for error in results if isinstance(error, ResourceExhausted)]
    assert refused and all(error.retry_delay for error in refused)
    assert len(await journal.open_runs()) == 50 - len(refused), "a refused run was stored"


async def test_an_orchestrator_takes_eight_connections_at_most(
    postgres: PostgresServer, postgres_dsn: str, two: Two
) -> None:
    journal = two[0]
    journal.listen(lambda owner: None)
    await asyncio.gather(*(create(journal, f"r{n}") for n in range(100)))
    busy = [store(journal, step(f"r{n}", 1)) for n in range(100)]
    await asyncio.gather(*busy, *(journal.steps(f"r{n}") for n in range(100)))
    async with postgres.connection(postgres_dsn.rpartition("/")[2]) as connection:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'archon-orchestrator'"
        total = await connection.fetchval(count + " AND datname = current_database()")
    assert total <= 8 + 2, "eight of the first journal, two of the second"


async def test_a_cancelled_caller_cancels_no_other(two: Two) -> None:
    journal = two[0]
    await asyncio.gather(*(create(journal, f"r{n}") for n in range(20)))
    appends = [asyncio.create_task(store(journal, step(f"r{n}", 1))) for n in range(20)]
    await asyncio.sleep(0)
    for appending in appends[::2]:
        appending.cancel()
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert all(result is Outcome.DONE for result in results[1::2])
    reads = [asyncio.create_task(journal.steps(f"r{n}")) for n in range(20)]
    await run_ready_tasks(5)
    for reading in reads[::2]:
        reading.cancel()
    read = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(result, list) for result in read[1::2])
    assert len(await journal.open_runs()) == 20


async def test_the_row_of_a_run_is_written_at_changes_of_state(
    postgres: PostgresServer, postgres_dsn: str, two: Two
) -> None:
    journal = two[0]
    async with postgres.connection(postgres_dsn.rpartition("/")[2]) as connection:
        await connection.execute(
            "CREATE TABLE writes (n serial, kind text);"
            "CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO writes (kind) VALUES (TG_OP); RETURN NULL; END $$;"
            "CREATE TRIGGER counts AFTER INSERT OR UPDATE ON archon_journal.runs "
            "FOR EACH ROW EXECUTE FUNCTION count_write()"
        )

        async def writes() -> list[str]:
            return [row[0] for row in await connection.fetch("SELECT kind FROM writes ORDER BY n")]

        await create(journal, "r")
        for base in range(1, 6):
            assert await store(journal, step("r", base)) is Outcome.DONE
        assert await store(journal, step("r", 2, batch="x", changed=True)) is Outcome.STALE
        assert await store(journal, step("r", 5, changed=True)) is Outcome.DONE, "the step is already stored"
        assert await writes() == ["INSERT"], "steps without a change of state, and refused steps, write no row"
        row = await journal.run("r")
        assert row is not None and row.last_seq == 6
        assert await store(journal, step("r", 6, changed=True, state=4)) is Outcome.DONE
        assert await store(journal, step("r", 7, ended=True, state=3)) is Outcome.DONE
        assert await writes() == ["INSERT", "UPDATE", "UPDATE"]
