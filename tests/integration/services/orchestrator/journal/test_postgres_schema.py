"""The schema of the PostgreSQL journal: migrations of journals with data, and the indexes of list queries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from archon.errors import FailedPrecondition, Internal
from archon_services.orchestrator.journal import Outcome, SameRequest
from archon_services.orchestrator.journal.postgres import PostgresJournal, chains, daily_usage, owners, statements
from archon_services.orchestrator.journal.postgres.commit import _APPEND, _CREATE, _KNOWN, _LAST_STEP
from archon_services.orchestrator.journal.postgres.schema import SCHEMA, metadata
from archon_services.postgres.compile import compile_statement
from archon_services.postgres.connections import prepare
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.migrations import VERSION_TABLE, alembic_config, migrate
from tests.fixtures.journal import create, creation, new_run, step, store, stored_events
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.servers import empty_postgres_dsn

__all__ = ["empty_postgres_dsn"]

REVISIONS = [revision.revision for revision in ScriptDirectory.from_config(alembic_config(SCHEMA)).walk_revisions()]
DATA = Path(__file__).parent / "revisions"
"""A folder with a file NNNN.sql for each revision: the rows of a journal of that revision, with the same runs."""


@pytest.fixture
async def connection(empty_postgres_dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(empty_postgres_dsn)
    yield connection
    await connection.close()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_durability_7_a_journal_of_each_revision_is_migrated(
    revision: str, postgres: PostgresServer, empty_postgres_dsn: str
) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test", to=revision)
    postgres.execute((DATA / f"{revision}.sql").read_text(), empty_postgres_dsn.rpartition("/")[2])
    journal = PostgresJournal(empty_postgres_dsn)
    await journal.open()
    assert await journal.open_runs() == ["open"]
    row = await journal.run("open")
    assert row is not None
    assert (row.tenant, row.session_id, row.epoch, row.last_seq, row.state) == ("default", "session", 3, 2, 2)
    assert await stored_events(journal, "open") == [b"first", b"second"]
    assert await journal.inputs("open") == [(0, b"in"), (1, b"in")]
    assert await journal.records("open") == [(1, b"record")]
    ended = await journal.run("ended")
    assert ended is not None and ended.compacted and ended.summary == b"summary"
    assert await journal.request("default", "request") == (b"hash", "open")
    (due,) = await journal.outbox("owner")
    assert due.content == "text"
    assert await store(journal, step("open", 2, epoch=3)) is Outcome.DONE
    claimed = await journal.claim("open", "owner")
    assert claimed is not None and claimed.epoch == 4 and claimed.revision == 1
    assert await store(journal, creation(new_run("x", "request", b"hash"))) == SameRequest("open")
    await journal.close()


def test_each_revision_has_data() -> None:
    assert sorted(path.stem for path in DATA.glob("????.sql")) == sorted(REVISIONS)
    assert ScriptDirectory.from_config(alembic_config(SCHEMA)).get_current_head() == SCHEMA.head


async def test_the_migrations_lead_to_the_tables_of_the_schema(empty_postgres_dsn: str) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test")

    def differences(session: Connection) -> list[Any]:
        options = {
            "version_table": VERSION_TABLE,
            "version_table_schema": SCHEMA.name,
            "include_schemas": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA.name,
        }
        return list(compare_metadata(MigrationContext.configure(session, opts=options), metadata))

    engine = create_async_engine(empty_postgres_dsn.replace("postgresql:", "postgresql+asyncpg:"))
    async with engine.connect() as session:
        assert await session.run_sync(differences) == []
    await engine.dispose()


async def test_orchestrators_that_start_at_once_migrate_once(empty_postgres_dsn: str) -> None:
    journals = [PostgresJournal(empty_postgres_dsn) for _ in range(6)]
    await asyncio.gather(*(journal.open() for journal in journals))
    await asyncio.gather(*(create(journal, f"r{n}") for n, journal in enumerate(journals)))
    assert len(await journals[0].open_runs()) == 6
    await asyncio.gather(*(journal.close() for journal in journals))


async def test_a_journal_that_a_newer_version_wrote_is_refused(empty_postgres_dsn: str, connection: Any) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test")
    await connection.execute(f"UPDATE {SCHEMA.name}.{VERSION_TABLE} SET version_num = '9999', compatible_from = '9998'")
    with pytest.raises(FailedPrecondition, match="newer version of Archon: revision 9999"):
        await PostgresJournal(empty_postgres_dsn).open()
    assert await connection.fetchval(f"SELECT version_num FROM {SCHEMA.name}.{VERSION_TABLE}") == "9999"


async def test_a_migration_that_fails_leaves_nothing(empty_postgres_dsn: str, connection: Any) -> None:
    await connection.execute(f"CREATE SCHEMA {SCHEMA.name}; CREATE TABLE {SCHEMA.name}.outbox (foreign_column int)")
    with pytest.raises(Internal, match='relation "outbox" already exists'):
        await PostgresJournal(empty_postgres_dsn).open()
    left = "SELECT count(*) FROM pg_tables WHERE schemaname = $1"
    assert await connection.fetchval(left, SCHEMA.name) == 1
    await connection.execute(f"DROP TABLE {SCHEMA.name}.outbox")
    journal = PostgresJournal(empty_postgres_dsn)
    await journal.open()
    await journal.close()


async def test_a_migrated_schema_needs_no_right_to_change_it(
    postgres: PostgresServer, empty_postgres_dsn: str, connection: Any
) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test")
    role = f"writer_{empty_postgres_dsn[-6:]}"
    await connection.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'pw'; GRANT USAGE ON SCHEMA {SCHEMA.name} TO {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA.name} TO {role}"
    )
    try:
        place = empty_postgres_dsn.rpartition("@")[2]
        journal = PostgresJournal(f"postgresql://{role}:pw@{place}")
        await journal.open()
        await create(journal, "r", "q")
        assert await store(journal, step("r", 1)) is Outcome.DONE
        await journal.close()
    finally:
        await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


FILL = """
INSERT INTO archon_journal.runs
  (run_id, tenant, session_id, owner, epoch, last_seq, state, created_at, ended_at, compacted)
SELECT 'r' || n, 'default', CASE WHEN n % 50 = 0 THEN 's' || n % 1000 ELSE '' END, 'o', 1, 3, 3, n,
  CASE WHEN n % 100 = 0 THEN 0 ELSE n END, n < 19000
FROM generate_series(1, 20000) AS n;
INSERT INTO archon_journal.steps SELECT 'r' || n, 0, 3, 'b', 'e', 'i', n FROM generate_series(1, 20000) AS n;
INSERT INTO archon_journal.records SELECT 'r' || n % 500, n, 'role', 'r' FROM generate_series(1, 20000) AS n;
INSERT INTO archon_journal.requests SELECT 'default', 'q' || n, 'h', 'r' || n, 0 FROM generate_series(1, 20000) AS n;
INSERT INTO archon_journal.outbox (run_id, epoch, scope, role, task_id, seq)
SELECT 'r' || n, 1, 's', 'role', 't', 1 FROM generate_series(1, 20000) AS n;
INSERT INTO archon_journal.audit (chain, number, tenant, time, identity, action, run_id, data, digest, link)
SELECT 'c' || n % 10, n, 'default', n, 'alice', 'run.submit', 'r' || n, '{}', '', '' FROM generate_series(1, 20000) AS n;
INSERT INTO archon_journal.daily_usage
SELECT n % 9, 'o' || n % 3, 'default', 'p' || n, 1, 1, 1, 1 FROM generate_series(1, 20000) AS n;
ANALYZE;
"""


@pytest.mark.parametrize("filled", [True, False], ids=["full", "empty when planned"])
async def test_no_statement_reads_a_whole_table(filled: bool, empty_postgres_dsn: str, connection: Any) -> None:
    await migrate(parse_dsn(empty_postgres_dsn), SCHEMA, "test")
    if filled:
        await connection.execute(FILL)
    await prepare(connection)
    await connection.execute("SET plan_cache_mode = force_generic_plan")

    async def plan(text: str, *values: object) -> str:
        """Returns the generic plan of a statement, which does not depend on its values."""
        return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {text}", *values))

    lists = [
        statements.list_runs("default", "", (), None, 100),
        statements.list_runs("default", "", (), (15_000.0, "r15000"), 100),
        statements.list_runs("default", "s50", (), None, 100),
        statements.list_runs("default", "s50", (3,), (15_000.0, "r15000"), 100),
        statements.list_runs("default", "", (2, 3), None, 100),
        statements.list_runs("default", "", (), None, 100, 15_000.0),
    ]
    for statement in lists:
        plan_text = await plan(*_split(compile_statement(statement)))
        assert "Seq Scan" not in plan_text, plan_text
        assert "Sort" not in plan_text or not filled
    assert not filled or "runs_of_session" in await plan(*_split(compile_statement(lists[2])))
    for text, values in (
        (statements.RUN, ("r7",)),
        (statements.STEPS, ("r7", 0, 500, 1_000_000)),
        (statements.RECORDS, ("r7", 2, "", 100, 1_000_000)),
        (statements.RECORDS, ("r7", 2, "role", 100, 1_000_000)),
        (statements.SIZE, ("r7",)),
        (statements.OPENINGS, (["r7", "r8"], 1_000)),
        (statements.INPUTS, ("r7",)),
        (statements.REQUEST, ("default", "q7")),
        (owners.OPEN_RUNS, ()),
        (owners.OPEN_RUNS_OF, ("o",)),
        (owners.CLAIM, ("owner", "r7")),
        (owners.CLAIM_SOME, ("owner", 1, 100)),
        (owners.NEWER_RUNS, (1, 1000)),
        (owners.BEAT, ("owner", "")),
        (owners.EXPIRE, ("owner", 1)),
        (owners.POSTED, ("owner", 1000)),
        (owners.IS_POSTED, (1,)),
        (owners.DROP, ([1, 2],)),
        (statements.OUTBOX, ("owner", 100, "", ["s"])),
        (statements.PUBLISHED, ([1, 2],)),
        (statements.COMPACTABLE, (19_500.0, 100, 2)),
        (statements.COMPACT, ("r7", b"summary")),
        (statements.FORGET_REQUESTS, (1.0,)),
        (statements.DELETE, (500.0, 1.0)),
        (_APPEND, tuple([] for _ in range(33))),
        (_CREATE, tuple([] for _ in range(38))),
        (_LAST_STEP, (["r7"],)),
        (chains.RECORDED, ("r7", 0, 500, 1_000_000)),
        (chains.UNLINKED, ("owner", 500)),
        (chains.HEADS, (50,)),
        (chains.LINK, ("owner", [1], [1], [b""], [b""], [b""])),
        (chains.ENTRIES, ("default", 0, 1.0, 2.0, "", "", "", 100)),
        (chains.LINKS, ("owner", 1, 100)),
        (chains.ANCHORS, (100.0,)),
        (chains.TRIM, ("c1", 100)),
        (daily_usage.USAGE, (20_000, "owner")),
        (_KNOWN, ([1], ["default"], ["q7"], ["r7"])),
    ):
        plan_text = await plan(text, *values)
        assert "Seq Scan" not in plan_text.replace("Seq Scan on owners", ""), plan_text


def _split(statement: tuple[str, list[Any]]) -> tuple[Any, ...]:
    return (statement[0], *statement[1])
