"""What several orchestrators may do with one PostgreSQL journal, and what a lost connection leaves open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from archon.errors import InvalidArgument, ResourceExhausted, Unavailable
from archon_services.orchestrator.journal import NewRun, Outcome
from archon_services.orchestrator.journal.postgres import PostgresJournal
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.tcp_proxy import TcpProxy
from tests.integration.services.orchestrator.journal.test_conformance import new, step


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
    """Two processes' journals over one database."""
    async with opened(postgres_dsn) as first, opened(postgres_dsn) as second:
        yield first, second


@pytest.fixture
async def proxied(
    postgres: PostgresServer, postgres_dsn: str
) -> AsyncIterator[tuple[PostgresJournal, TcpProxy, PostgresJournal]]:
    """A journal behind a proxy, the proxy, and a journal that goes past it."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(TcpProxy(postgres.port))
        database = postgres_dsn.rpartition("/")[2]
        behind = await stack.enter_async_context(opened(postgres.dsn(database, port=proxy.port)))
        yield behind, proxy, await stack.enter_async_context(opened(postgres_dsn))


Two = tuple[PostgresJournal, PostgresJournal]
Proxied = tuple[PostgresJournal, TcpProxy, PostgresJournal]


async def test_durability_3_what_another_process_claimed_is_deposed_here(two: Two) -> None:
    first, second = two
    await first.create(new("r"), step("r", 0))
    claimed = await second.claim("r", "second")
    assert claimed is not None and claimed.epoch == 2
    assert await first.append(step("r", 1, epoch=1, batch="first")) is Outcome.DEPOSED
    assert await second.append(step("r", 1, epoch=2, batch="second")) is Outcome.DONE
    assert await first.append(step("r", 2, epoch=1, batch="first again")) is Outcome.DEPOSED
    assert len(await first.events("r", 0)) == 2


async def test_claims_at_the_same_moment_each_get_an_epoch_of_their_own(two: Two) -> None:
    first, second = two
    await first.create(new("r"), step("r", 0))
    rows = await asyncio.gather(*(journal.claim("r", f"owner {n}") for n in range(5) for journal in two))
    epochs = sorted(row.epoch for row in rows if row is not None)
    assert epochs == list(range(2, 2 + len(epochs))) and epochs
    row = await second.run("r")
    assert row is not None and row.epoch == epochs[-1]


async def test_durability_9_a_claim_that_waited_for_one_of_somebody_who_lives_takes_nothing(
    postgres: PostgresServer, postgres_dsn: str, two: Two
) -> None:
    journal = two[0]
    await journal.create(new("r"), step("r", 0))
    async with postgres.connection(postgres_dsn.rpartition("/")[2]) as other:
        async with other.transaction():
            await other.execute("INSERT INTO archon_journal.owners VALUES ('other', 'host:1', 1, 0)")
            await other.execute("UPDATE archon_journal.runs SET owner = 'other', epoch = 2")
            claiming = asyncio.create_task(journal.claim("r", "me"))
            await asyncio.sleep(0.3)
            assert not claiming.done()
        assert await claiming is None
    row = await journal.run("r")
    assert row is not None and (row.owner, row.epoch) == ("other", 2)


async def test_concurrent_creates_with_one_request_id_in_two_processes_make_one_run(two: Two) -> None:
    for round in range(20):
        wanted = [
            journal.create(new(f"{name}-{round}-{n}", f"q{round}"), step(f"{name}-{round}-{n}", 0))
            for name, journal in zip("ab", two, strict=True)
            for n in range(3)
        ]
        made = await asyncio.gather(*wanted)
        assert len({run_id for run_id, _ in made}) == 1
        assert sum(created for _, created in made) == 1
    assert len(await two[0].open_runs()) == 20


async def test_request_ids_asked_for_crosswise_in_two_processes_hurt_nobody(two: Two) -> None:
    first, second = two
    names = [f"q{n}" for n in range(40)]
    made = await asyncio.gather(
        *(first.create(new(f"a-{name}", name), step(f"a-{name}", 0)) for name in names),
        *(second.create(new(f"b-{name}", name), step(f"b-{name}", 0)) for name in reversed(names)),
    )
    assert len({run_id for run_id, _ in made}) == 40
    assert sum(created for _, created in made) == 40


async def test_of_two_appends_of_one_owner_at_once_one_is_stale(two: Two) -> None:
    first, second = two
    await first.create(new("r"), step("r", 0))
    outcomes = await asyncio.gather(
        *(journal.append(step("r", 1, batch=f"{n}")) for n, journal in enumerate([first, first, second, second]))
    )
    assert sorted(outcome.value for outcome in outcomes) == ["done", "stale", "stale", "stale"]
    assert len(await first.events("r", 0)) == 2


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_durability_3_an_append_whose_connection_died_is_read_again_and_stored_once(
    proxied: Proxied, answered: bool
) -> None:
    behind, proxy, direct = proxied
    await behind.create(new("r"), step("r", 0))
    lost = proxy.lose(lambda data: b"the batch" in data, answered=answered)
    appending = asyncio.create_task(behind.append(step("r", 1, 3, batch="the batch")))
    await asyncio.wait_for(lost.wait(), 5)
    if answered:
        assert len(await direct.events("r", 0)) == 4, "it is committed, and nobody here knows"
    assert not appending.done()
    proxy.refuse = False
    assert await appending is Outcome.DONE
    assert await direct.events("r", 0) == [f"r:{n}".encode() for n in range(1, 5)]
    assert await behind.append(step("r", 4)) is Outcome.DONE


@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_durability_3_an_append_whose_connection_died_while_another_claimed_the_run_is_deposed(
    proxied: Proxied, answered: bool
) -> None:
    behind, proxy, direct = proxied
    await behind.create(new("r"), step("r", 0))
    lost = proxy.lose(lambda data: b"the batch" in data, answered=answered)
    appending = asyncio.create_task(behind.append(step("r", 1, batch="the batch")))
    await asyncio.wait_for(lost.wait(), 5)
    assert await direct.claim("r", "another") is not None
    proxy.refuse = False
    assert await appending is Outcome.DEPOSED
    assert len(await direct.events("r", 0)) == (2 if answered else 1)


async def test_durability_3_an_append_of_this_owner_that_another_step_overtook_is_stale_after_a_lost_connection(
    proxied: Proxied,
) -> None:
    behind, proxy, direct = proxied
    await behind.create(new("r"), step("r", 0))
    lost = proxy.lose(lambda data: b"the batch" in data, answered=False)
    appending = asyncio.create_task(behind.append(step("r", 1, batch="the batch")))
    await asyncio.wait_for(lost.wait(), 5)
    assert await direct.append(step("r", 1, batch="another")) is Outcome.DONE
    proxy.refuse = False
    assert await appending is Outcome.STALE


@pytest.mark.parametrize("request_id", ["", "q"])
@pytest.mark.parametrize("answered", [True, False], ids=["after the commit", "before the server got it"])
async def test_durability_3_a_run_whose_connection_died_is_taken_on_once(
    proxied: Proxied, answered: bool, request_id: str
) -> None:
    behind, proxy, direct = proxied
    lost = proxy.lose(lambda data: b"the run" in data, answered=answered)
    creating = asyncio.create_task(behind.create(new("the run", request_id), step("the run", 0)))
    await asyncio.wait_for(lost.wait(), 5)
    proxy.refuse = False
    assert await creating == ("the run", True)
    assert await direct.open_runs() == ["the run"]
    if request_id:
        assert await direct.create(new("x", request_id), step("x", 0)) == ("the run", False)


async def test_reads_are_done_once_more_where_their_connection_died(proxied: Proxied) -> None:
    behind, proxy, _ = proxied
    await behind.create(new("r"), step("r", 0))
    for _ in range(5):
        assert await behind.open_runs() == ["r"]
        proxy.cut()
    await asyncio.gather(*(behind.events("r", 0) for _ in range(10)))


async def test_durability_3_a_group_that_fails_is_tried_run_by_run(
    postgres: PostgresServer, postgres_dsn: str, two: Two
) -> None:
    journal = two[0]
    await asyncio.gather(*(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(10)))
    async with postgres.connection(postgres_dsn.rpartition("/")[2]) as somebody, somebody.transaction():
        await somebody.execute("SELECT 1 FROM archon_journal.runs WHERE run_id = 'r3' FOR UPDATE")
        outcomes = await asyncio.gather(*(journal.append(step(f"r{n}", 1)) for n in range(10)), return_exceptions=True)
    assert [n for n, outcome in enumerate(outcomes) if outcome is not Outcome.DONE] == [3]
    assert isinstance(outcomes[3], Unavailable) and outcomes[3].retry_delay
    assert await journal.append(step("r3", 1)) is Outcome.DONE


async def test_what_postgresql_cannot_hold_is_a_typed_error_and_hurts_no_other(two: Two) -> None:
    journal = two[0]
    bad = NewRun("bad", "default", "a\0b", b"p", "", "owner")
    good = [journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(10)]
    results = await asyncio.gather(journal.create(bad, step("bad", 0)), *good, return_exceptions=True)
    assert isinstance(results[0], InvalidArgument)
    assert len(await journal.open_runs()) == 10
    with pytest.raises(InvalidArgument):
        await journal.runs(tenant="default", session_id="\0")


async def test_what_waits_for_the_database_has_a_bound(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.postgres.group_commit.MAX_WAITING", 5)
    journal = two[0]
    done = await asyncio.gather(
        *(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(50)), return_exceptions=True
    )
    refused = [one for one in done if isinstance(one, ResourceExhausted)]
    assert refused and all(one.retry_delay for one in refused)
    assert len(await journal.open_runs()) == 50 - len(refused), "nothing of them is stored"


async def test_an_orchestrator_takes_eight_connections_at_most(
    postgres: PostgresServer, postgres_dsn: str, two: Two
) -> None:
    journal = two[0]
    journal.listen(lambda owner: None)
    await asyncio.gather(*(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(100)))
    busy = [journal.append(step(f"r{n}", 1)) for n in range(100)]
    await asyncio.gather(*busy, *(journal.events(f"r{n}", 0) for n in range(100)))
    async with postgres.connection(postgres_dsn.rpartition("/")[2]) as somebody:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'archon-orchestrator'"
        everybody = await somebody.fetchval(count + " AND datname = current_database()")
    assert everybody <= 8 + 2, "the second journal has opened two"


async def test_a_caller_who_leaves_takes_nobody_along(two: Two) -> None:
    journal = two[0]
    await asyncio.gather(*(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(20)))
    appends = [asyncio.create_task(journal.append(step(f"r{n}", 1))) for n in range(20)]
    await asyncio.sleep(0)
    for appending in appends[::2]:
        appending.cancel()
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert all(result is Outcome.DONE for result in results[1::2])
    reads = [asyncio.create_task(journal.events(f"r{n}", 0)) for n in range(20)]
    await asyncio.sleep(0.001)
    for reading in reads[::2]:
        reading.cancel()
    read = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(result, list) for result in read[1::2])
    assert len(await journal.open_runs()) == 20
