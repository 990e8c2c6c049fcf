"""One way to work on SQLite and on PostgreSQL: a plain function of a SQLAlchemy connection, in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from archon.errors import ArchonError, ResourceExhausted, Unavailable

T = TypeVar("T")

TIMEOUT: Final = 10.0
"""Seconds that one transaction may take."""

_NEVER_ACQUIRED: Final = ("database or disk is full", "disk i/o error")


class Database:
    """`where` is the path of a SQLite file, `memory`, or the address of a PostgreSQL (`postgresql://...`). Opened when
    it is first used. SQLite has one thread, which is all that writes."""

    def __init__(self, where: str, metadata: sa.MetaData) -> None:
        self._where = where
        self._metadata = metadata
        self._ready = asyncio.Lock()
        self._made = False
        self._thread: ThreadPoolExecutor | None = None
        self._sync: sa.Engine | None = None
        self._async: AsyncEngine | None = None
        if where.startswith(("postgresql://", "postgres://")):
            address = "postgresql+asyncpg://" + where.partition("://")[2]
            self._async = create_async_engine(address, pool_size=4, max_overflow=4, pool_pre_ping=True)
        else:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sessions")
            self._sync = _sqlite(where)

    async def run(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` gives, once it is durable. Raises Unavailable, ResourceExhausted where the disk is full; then
        nothing of it is stored."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._prepare()
                return await self._in_transaction(work)
        except ArchonError:
            raise
        except TimeoutError:
            raise Unavailable(f"the session store didn't answer within {TIMEOUT:g} s", retry_delay=1.0) from None
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise _typed(error) from error

    async def close(self) -> None:
        """Idempotent; it opens again when it is used again."""
        if self._async is not None:
            await self._async.dispose()
        if self._sync is not None and self._where != "memory":
            self._sync.dispose()

    async def _prepare(self) -> None:
        if self._made:
            return
        async with self._ready:
            if not self._made:
                await self._in_transaction(self._tables)
                self._made = True

    def _tables(self, connection: sa.Connection) -> None:
        """Makes those that aren't there; whoever does it at the same moment waits."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('archon_sessions'))"))
        self._metadata.create_all(connection)

    async def _in_transaction(self, work: Callable[[sa.Connection], T]) -> T:
        if self._async is not None:
            async with self._async.begin() as connection:
                return await connection.run_sync(work)
        sync = self._sync
        assert sync is not None

        def on_thread() -> T:
            with sync.begin() as connection:
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)


def _sqlite(where: str) -> sa.Engine:
    if where == "memory":
        return sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    engine = sa.create_engine(f"sqlite:///{where}")

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _typed(error: Exception) -> ArchonError:
    said = str(getattr(error, "orig", None) or error)
    if any(one in said.lower() for one in _NEVER_ACQUIRED) or "DiskFull" in said:
        return ResourceExhausted(f"the session store is full: {said}", retry_delay=1.0)
    return Unavailable(f"the session store can't be reached: {said}", retry_delay=1.0)
