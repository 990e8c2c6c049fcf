"""Migrations beside replicas of the release before: which schemas a release opens, and what a migration holds up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
from alembic import op
from alembic.script import ScriptDirectory

from archon.errors import FailedPrecondition
from archon_services.memory.store.postgres.schema import SCHEMA as MEMORY
from archon_services.orchestrator.journal.postgres.schema import SCHEMA as JOURNAL
from archon_services.postgres import migrations
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.migrations import VERSION_TABLE, Schema, alembic_config, compatible_from, migrate
from tests.fixtures.servers import empty_postgres_dsn
from tests.fixtures.waiting import until

__all__ = ["empty_postgres_dsn"]

NEXT: Final = """
from alembic import op

revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None
compatible_from = "{compatible_from}"


def upgrade() -> None:
    op.execute("ALTER TABLE archon_journal.steps ADD COLUMN note text")
"""


@pytest.fixture
async def connection(empty_postgres_dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(empty_postgres_dsn)
    yield connection
    await connection.close()


def next_release(folder: Path, *, expands: bool) -> Schema:
    """Returns the journal's schema of a later release, whose migration adds a column."""
    folder.mkdir()
    for script in JOURNAL.folder.glob("r*.py"):
        (folder / script.name).write_text(script.read_text())
    text = NEXT.format(revision="9999", before=JOURNAL.head, compatible_from=JOURNAL.head if expands else "9999")
    (folder / "r9999_next.py").write_text(text)
    return replace(JOURNAL, folder=folder, head="9999")


async def stored(connection: Any) -> tuple[str, str]:
    """Returns the revision of the journal's schema, and the revision that it is compatible from."""
    row = await connection.fetchrow(f"SELECT version_num, compatible_from FROM archon_journal.{VERSION_TABLE}")
    return row[0], row[1]


async def test_a_release_opens_a_newer_schema_that_only_adds(
    empty_postgres_dsn: str, connection: Any, tmp_path: Path
) -> None:
    dsn = parse_dsn(empty_postgres_dsn)
    await migrate(dsn, JOURNAL, "test")
    assert await stored(connection) == (JOURNAL.head, "0004")
    await migrate(dsn, next_release(tmp_path / "next", expands=True), "test")
    assert await stored(connection) == ("9999", JOURNAL.head)
    await migrate(dsn, JOURNAL, "test")
    assert await stored(connection) == ("9999", JOURNAL.head), "the way back leaves the schema as it is"


async def test_a_release_refuses_a_newer_schema_that_takes_away(
    empty_postgres_dsn: str, connection: Any, tmp_path: Path
) -> None:
    dsn = parse_dsn(empty_postgres_dsn)
    await migrate(dsn, next_release(tmp_path / "next", expands=False), "test")
    with pytest.raises(FailedPrecondition, match="newer version of Archon: revision 9999"):
        await migrate(dsn, JOURNAL, "test")
    assert await stored(connection) == ("9999", "9999")


async def test_a_migration_behind_a_long_transaction_blocks_no_writer(
    empty_postgres_dsn: str, connection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    dsn = parse_dsn(empty_postgres_dsn)
    await migrate(dsn, JOURNAL, "test")
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(migrations, "RETRY_PAUSE", 0.05)
    caplog.set_level("INFO")
    reader = await asyncpg.connect(empty_postgres_dsn)
    async with reader.transaction():
        await reader.fetch("SELECT count(*) FROM archon_journal.steps")
        migrating = asyncio.create_task(migrate(dsn, next_release(tmp_path / "next", expands=True), "test"))
        await until(lambda: caplog.text.count("is tried again") >= 2)
        write = "INSERT INTO archon_journal.steps VALUES ('r', 0, 1, 'b', '', '')"
        await asyncio.wait_for(connection.execute(write), 10.0)
        assert not migrating.done()
    await migrating
    await reader.close()
    assert await stored(connection) == ("9999", JOURNAL.head)


@pytest.mark.parametrize("schema", [JOURNAL, MEMORY], ids=["journal", "memory"])
def test_compatible_revisions_never_go_back(schema: Schema) -> None:
    scripts = ScriptDirectory.from_config(alembic_config(schema))
    revisions = sorted(script.revision for script in scripts.walk_revisions())
    compatible = [compatible_from(scripts, revision) for revision in revisions]
    assert compatible == sorted(compatible)
    assert all(first <= revision for first, revision in zip(compatible, revisions, strict=True))


@pytest.mark.parametrize("schema", [JOURNAL, MEMORY], ids=["journal", "memory"])
def test_expanding_migrations_only_add(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    monkeypatch.setattr(op, "execute", statements.append, raising=False)
    scripts = ScriptDirectory.from_config(alembic_config(schema))
    for script in scripts.walk_revisions():
        if compatible_from(scripts, script.revision) == script.revision or script.revision == "0002":
            continue  # the second revisions build indexes of tables that had rows
        statements.clear()
        script.module.upgrade()
        assert statements, script.revision
        created = {name for text in statements for name in re.findall(r"CREATE TABLE (\S+)", text)}
        for text in statements:
            assert not re.search(r"\b(DROP|RENAME|TYPE|SET|UPDATE|DELETE|INSERT)\b", text), text
            assert not re.search(r"ADD COLUMN [^,;]*NOT NULL(?![^,;]*DEFAULT)", text), text
            for table in re.findall(r"CREATE (?:UNIQUE )?INDEX \S+ ON (\S+)", text):
                assert table in created, f"{script.revision} blocks the writers of {table} while it builds an index"
