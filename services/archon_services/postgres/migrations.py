"""Migrates a schema to its newest revision with Alembic.

Revisions are modules of a package, so nothing is read from the working directory. Alembic is imported only if there is
a revision to apply."""

from __future__ import annotations

import asyncio
import logging
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

TIMEOUT: Final = 60.0
"""Seconds for a migration, including the wait for another replica that is migrating."""

VERSION_TABLE: Final = "schema_version"


@dataclass(frozen=True, slots=True)
class Schema:
    """A PostgreSQL schema with its own revisions. `folder` contains the revisions; `head` is the newest, repeated here
    so that an up-to-date database is recognised without Alembic. `lock` is the schema's first advisory lock id."""

    name: str
    folder: Path
    head: str
    lock: int


async def migrate(dsn: Dsn, schema: Schema, application: str, *, to: str = "head") -> None:
    """Migrates a schema to the revision `to`. Concurrent calls are safe: one migrates and the others wait. A schema
    that is up to date needs no lock, and no privilege but to read.

    Raises FailedPrecondition if a newer version of Archon wrote the schema, and Unavailable.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            connection = await dial(dsn, application)
            try:
                if await _revision(connection, schema) == schema.head:
                    return
                await _upgrade(connection, schema, to)
            finally:
                connection.terminate()
    except Exception as error:
        raise to_archon_error(_driver_error(error), dsn.redacted) from error


async def _revision(connection: Connection, schema: Schema) -> str:
    """Returns the schema's revision, or an empty string if there is none."""
    try:
        revision = await connection.fetchval(f"SELECT version_num FROM {schema.name}.{VERSION_TABLE}")
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return ""
    return str(revision or "")


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
    revisions = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if newer := set(MigrationContext.configure(session, opts=options).get_current_heads()) - revisions:
        raise FailedPrecondition(
            f"the schema {schema.name} was written by a newer version of Archon: revision {min(newer)}",
            metadata={"schema": schema.name, "revision": min(newer)},
        )
    command.upgrade(config, to)
    _log.info("migrated the schema %s to its newest revision", schema.name)


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
