"""Migrates a schema to its newest revision with Alembic, while replicas of the release before use it.

Revisions are modules of a package, so nothing is read from the working directory. Alembic is imported only if there is
a revision to apply.

Each revision names in `compatible_from` the earliest revision whose release still works with the schema that it leaves:
an earlier one if it only adds, itself if it takes something away. The schema keeps that name with its revision, so that
a release knows of a schema that a later one has migrated whether it may use it."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from archon.errors import FailedPrecondition
from archon_services.postgres.connections import Connection, dial
from archon_services.postgres.dsn import Dsn
from archon_services.postgres.errors import to_archon_error

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

TIMEOUT: Final = 60.0
"""Seconds for a migration, including the wait for another replica that is migrating."""

LOCK_TIMEOUT: Final = 0.5
"""Seconds for which one statement of a migration waits for a lock on a table: as long, writers queue behind it. A
migration that gets no lock is rolled back and tried again."""

RETRY_PAUSE: Final = 0.5
"""The longest random pause in seconds before a migration is tried again; the shortest is half of it."""

VERSION_TABLE: Final = "schema_version"


@dataclass(frozen=True, slots=True)
class Schema:
    """A PostgreSQL schema with its own revisions, which are ordered by their names. `folder` contains the revisions;
    `head` is the newest, repeated here so that an up-to-date database is recognised without Alembic. `lock` is the
    schema's first advisory lock id."""

    name: str
    folder: Path
    head: str
    lock: int


async def migrate(dsn: Dsn, schema: Schema, application: str, *, to: str = "head") -> None:
    """Migrates a schema to the revision `to`. Concurrent calls are safe: one migrates and the others wait. A schema
    that is up to date, or that a newer release has only added to, needs no lock, and no privilege but to read.

    Raises FailedPrecondition if a newer version of Archon wrote the schema and this one cannot use it, and Unavailable.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            while not await _try_to_migrate(dsn, schema, application, to):
                _log.info("the schema %s is in use; its migration is tried again", schema.name)
                await asyncio.sleep(RETRY_PAUSE * random.uniform(0.5, 1.0))
    except Exception as error:
        raise to_archon_error(_driver_error(error), dsn.redacted) from error


async def _try_to_migrate(dsn: Dsn, schema: Schema, application: str, to: str) -> bool:
    """Returns False, and has changed nothing, if others held a table for longer than LOCK_TIMEOUT."""
    connection = await dial(dsn, application)
    try:
        revision, compatible_from = await _stored_revision(connection, schema)
        if revision == schema.head:
            return True
        if revision > schema.head:
            _check_compatible(schema, revision, compatible_from)
            return True
        await _upgrade(connection, schema, to)
    except Exception as error:
        if isinstance(_driver_error(error), asyncpg.LockNotAvailableError):
            return False
        raise
    finally:
        connection.terminate()
    return True


async def _stored_revision(connection: Connection, schema: Schema) -> tuple[str, str]:
    """Returns the schema's revision, and the earliest revision whose release works with it: empty strings if there is
    none, or if the release that migrated it did not store it."""
    try:
        stored = await connection.fetchrow(_stored_query(schema))
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return "", ""
    return (str(stored[0] or ""), str(stored[1] or "")) if stored is not None else ("", "")


def _stored_query(schema: Schema) -> str:
    """Returns a query that also reads a table without the column `compatible_from`."""
    return f"SELECT version_num, to_jsonb(stored) ->> 'compatible_from' FROM {schema.name}.{VERSION_TABLE} AS stored"


def _check_compatible(schema: Schema, revision: str, compatible_from: str) -> None:
    """Raises FailedPrecondition unless this release works with a schema of the later `revision`."""
    if not compatible_from or schema.head < compatible_from:
        raise FailedPrecondition(
            f"the schema {schema.name} was written by a newer version of Archon: revision {revision}",
            metadata={"schema": schema.name, "revision": revision},
        )
    _log.info("the schema %s is of a newer release (revision %s), which only added to it", schema.name, revision)


async def _upgrade(connection: Connection, schema: Schema, to: str) -> None:
    """Upgrades in one transaction, so that a failed migration changes nothing."""
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    async def creator() -> Connection:
        return connection

    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator, poolclass=NullPool)
    async with engine.connect() as session:
        for setting in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            await session.exec_driver_sql(f"SET LOCAL {setting} = '{TIMEOUT:.0f}s'")
        await session.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.lock})")
        await session.exec_driver_sql(f"SET LOCAL lock_timeout = '{1000 * LOCK_TIMEOUT:.0f}ms'")
        sql = f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema.name}'"
        if not (await session.exec_driver_sql(sql)).scalar_one():
            await session.exec_driver_sql(f"CREATE SCHEMA {schema.name}")
        await session.run_sync(_run_revisions, schema, to)
        await session.commit()


def _run_revisions(session: Any, schema: Schema, to: str) -> None:
    from alembic import command
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = alembic_config(schema)
    options = {"version_table": VERSION_TABLE, "version_table_schema": schema.name}
    config.attributes["archon"] = {"connection": session, **options}
    scripts = ScriptDirectory.from_config(config)
    migrated = MigrationContext.configure(session, opts=options)
    if (revision := migrated.get_current_revision() or "") > schema.head:  # another replica has just migrated it
        _check_compatible(schema, *session.exec_driver_sql(_stored_query(schema)).one())
        return
    command.upgrade(config, to)
    if (reached := migrated.get_current_revision() or "") == revision:
        return  # as well by another replica
    table = f"{schema.name}.{VERSION_TABLE}"
    session.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS compatible_from text")
    session.exec_driver_sql(f"UPDATE {table} SET compatible_from = '{compatible_from(scripts, reached)}'")
    _log.info("migrated the schema %s to revision %s", schema.name, reached)


def compatible_from(scripts: ScriptDirectory, revision: str) -> str:
    """Returns the earliest revision whose release works with a schema of this one."""
    return str(scripts.get_revision(revision).module.compatible_from)


def _driver_error(error: BaseException) -> BaseException:
    """Returns the driver's error that SQLAlchemy wrapped, or `error`."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
            return cause
        cause = getattr(cause, "orig", None) or cause.__cause__
    return error


def alembic_config(schema: Schema) -> Config:
    """Returns Alembic's configuration for a schema: its environment script and revisions."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _escaped(Path(__file__).parent / "environment"))
    config.set_main_option("version_locations", _escaped(schema.folder))
    config.set_main_option("path_separator", "newline")
    return config


def _escaped(path: Path) -> str:
    """Escapes % for the configuration format."""
    return str(path).replace("%", "%%")
