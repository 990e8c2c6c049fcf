"""`archon doctor` and databases with few free connections."""

from __future__ import annotations

import pytest

from archon_services.cli.checks.database import check_databases
from tests.fixtures.pgbouncer import pgbouncer
from tests.fixtures.postgres import PASSWORD, PostgresServer
from tests.integration.services.postgres.test_admission import limit, limited, needs_pgbouncer, server

__all__ = ["limited", "server"]


@pytest.mark.parametrize(
    ("connections", "level", "words"),
    [
        (4, "problem", "has 4 free connections, of which this service needs 5"),
        (6, "warning", "has 6 free connections"),
        (20, "ok", "has at least 8 free connections"),
    ],
)
async def test_free_connections_of_a_journal_are_counted_before_a_start(
    server: PostgresServer, limited: str, connections: int, level: str, words: str
) -> None:
    await limit(server, "ROLE", connections)
    (finding,) = await check_databases({"ARCHON_JOURNAL": limited}, running=False)
    assert (finding.level, words in finding.message) == (level, True), finding
    assert PASSWORD not in finding.message


@pytest.mark.parametrize(("connections", "level"), [(0, "warning"), (1, "ok")])
async def test_a_running_mesh_without_a_free_connection_is_a_warning(
    server: PostgresServer, limited: str, connections: int, level: str
) -> None:
    await limit(server, "ROLE", connections)
    (finding,) = await check_databases({"ARCHON_DB": limited}, running=True)
    assert finding.level == level, finding


@needs_pgbouncer
async def test_a_pooler_that_shares_sessions_is_a_problem(server: PostgresServer) -> None:
    with pgbouncer(server, "transaction") as dsn:
        (finding,) = await check_databases({"ARCHON_JOURNAL": dsn}, running=False)
    assert (finding.level, "pool_mode = session" in finding.message) == ("problem", True)


async def test_a_mesh_without_a_database_has_no_finding() -> None:
    assert await check_databases({"ARCHON_JOURNAL": "memory"}, running=False) == []
