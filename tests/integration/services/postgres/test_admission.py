"""Databases with few free connections, and behind poolers: a start counts, and says what is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from archon.errors import FailedPrecondition
from archon_services.memory.store.postgres import PostgresStore
from archon_services.orchestrator.journal import Outcome
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.postgres import admission
from archon_services.postgres.admission import admit
from archon_services.postgres.dsn import parse_dsn
from tests.fixtures.journal import create, step, store
from tests.fixtures.pgbouncer import PROGRAM, pgbouncer
from tests.fixtures.postgres import PASSWORD, PostgresServer
from tests.fixtures.waiting import eventually

needs_pgbouncer = pytest.mark.skipif(not PROGRAM, reason="pgbouncer is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


@pytest.fixture
async def limited(server: PostgresServer) -> AsyncIterator[str]:
    """The DSN of a user of its own, whose connections the test limits."""
    async with server.connection() as connection:
        await connection.execute(f"CREATE ROLE few LOGIN PASSWORD '{PASSWORD}'")
        await connection.execute("CREATE DATABASE few OWNER few")
    yield server.dsn("few").replace("//archon:", "//few:")
    async with server.connection() as connection:
        await connection.execute("DROP DATABASE few WITH (FORCE)")
        await connection.execute("DROP ROLE few")


async def limit(server: PostgresServer, what: str, connections: int) -> None:
    async with server.connection() as connection:
        await connection.execute(f"ALTER {what} few CONNECTION LIMIT {connections}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "PATIENCE", 0.3)


@pytest.mark.parametrize("connections", [5, 6, 20])
async def test_a_journal_works_with_the_connections_there_are(
    server: PostgresServer, limited: str, connections: int
) -> None:
    await limit(server, "ROLE", connections)
    journal = PostgresJournal(limited)
    await journal.open()
    journal.listen(lambda owner: None)
    try:
        assert journal._connections.size == min(4, connections - 4)
        for number in range(5):
            await create(journal, f"r{number}")
            assert await store(journal, step(f"r{number}", 1)) is Outcome.DONE
            assert await journal.run(f"r{number}") is not None
        listener = journal._listener
        assert listener is not None

        async def listening() -> bool:
            return listener.listening.is_set()

        await eventually(listening)
    finally:
        await journal.close()


@pytest.mark.parametrize(("what", "setting"), [("ROLE", "ALTER ROLE"), ("DATABASE", "ALTER DATABASE")])
async def test_too_few_connections_stop_a_start_with_the_setting_to_change(
    server: PostgresServer, limited: str, what: str, setting: str
) -> None:
    await limit(server, what, 4)
    with pytest.raises(FailedPrecondition, match=f"has 4 free connections, .* needs 5: .*{setting}") as refused:
        await PostgresJournal(limited).open()
    assert PASSWORD not in str(refused.value)
    await limit(server, what, 3)
    with pytest.raises(FailedPrecondition, match=r"has 3 free connections, .* needs 4"):
        async with PostgresStore(limited):
            pass


async def test_the_limit_of_the_server_is_named(limited: str) -> None:
    with PostgresServer(["max_connections=6", "superuser_reserved_connections=3"]) as small:
        async with small.connection() as connection:
            await connection.execute(f"CREATE ROLE few LOGIN PASSWORD '{PASSWORD}'")
        dsn = parse_dsn(small.dsn().replace("//archon:", "//few:"))
        with pytest.raises(FailedPrecondition, match=r"has 3 free connections, .* max_connections"):
            await admit(dsn, "test", least=5, most=8)
        assert await admit(dsn, "test", least=2, most=8) == 3


async def test_a_server_is_no_pooler(server: PostgresServer) -> None:
    assert await admit(parse_dsn(server.dsn()), "test", least=5, most=8) == 8


@needs_pgbouncer
@pytest.mark.parametrize("settings", [{}, {"server_round_robin": 1, "min_pool_size": 6}, {"default_pool_size": 1}])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused(
    server: PostgresServer, mode: str, settings: dict[str, object]
) -> None:
    with pgbouncer(server, mode, **settings) as dsn, pytest.raises(FailedPrecondition, match="pool_mode = session"):
        await PostgresJournal(dsn).open()


@needs_pgbouncer
async def test_a_pooler_of_sessions_is_accepted(server: PostgresServer) -> None:
    with pgbouncer(server, "session") as dsn:
        journal = PostgresJournal(dsn)
        await journal.open()
        await create(journal, "r")
        assert await store(journal, step("r", 1)) is Outcome.DONE
        await journal.close()
