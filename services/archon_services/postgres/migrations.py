"""Brings a schema to its newest revision. Revisions ship as a package of modules; nothing is read from a working
directory, and Alembic is imported only where there is something to do."""

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
from archon_services.postgres.errors import explained

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from alembic.config import Config

TIMEOUT: Final = 60.0
"""Seconds for a migration, the wait for another replica that is at it included."""

VERSION_TABLE: Final = "schema_version"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of PostgreSQL with a history of its own. `folder` holds the revisions; `head` is the newest, said here
    so that a database that is up to date is known without Alembic. `lock` tells schemas apart among advisory locks."""

    name: str
    folder: Path
    head: str
    lock: int


async def migrate(dsn: Dsn, schema: Schema, application: str, *, to: str = "head") -> None:
    """Several may call it at once: one migrates, the others wait and find it done. A schema that is up to date takes no
    lock and no right but to read. `to` is a revision.

    Raises FailedPrecondition where a newer version of Archon wrote the schema, and Unavailable.
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
        raise explained(_of_the_driver(error), dsn.shown) from error


async def _revision(connection: Connection, schema: Schema) -> str:
    """The schema's revision; empty where there is none yet."""
    try:
        found = await connection.fetchval(f"SELECT version_num FROM {schema.name}.{VERSION_TABLE}")
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return ""
    return str(found or "")


async def _upgrade(connection: Connection, schema: Schema, to: str) -> None:
    """One transaction: a migration that fails leaves nothing behind."""
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
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if newer := set(MigrationContext.configure(session, opts=options).get_current_heads()) - known:
        raise FailedPrecondition(
            f"the schema {schema.name} was written by a newer version of Archon: revision {min(newer)}",
            metadata={"schema": schema.name, "revision": min(newer)},
        )
    command.upgrade(config, to)
    _log.info("the schema %s was brought to its newest revision", schema.name)


def _of_the_driver(error: BaseException) -> BaseException:
    """What SQLAlchemy wrapped."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
            return cause
        cause = getattr(cause, "orig", None) or cause.__cause__
    return error


def alembic_config(schema: Schema) -> Config:
    """Where Alembic finds what it runs, and the schema's revisions."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _escaped(Path(__file__).parent / "environment"))
    config.set_main_option("version_locations", _escaped(schema.folder))
    config.set_main_option("path_separator", "newline")
    return config


def _escaped(path: Path) -> str:
    """For a format in which % means something."""
    return str(path).replace("%", "%%")
