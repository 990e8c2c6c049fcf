"""Runs plain functions of a SQLAlchemy connection as transactions on SQLite or PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon.private_files import private_file
from archon_mesh.memory.write_ahead_log import use_write_ahead_log

T = TypeVar("T")

TIMEOUT: Final = 10.0
"""Seconds that a transaction may take."""

_DISK_FULL: Final = ("database or disk is full", "disk i/o error")


class Database:
    """A database, opened on first use. SQLite transactions run one at a time, on one thread.

    `location` is the path of a SQLite file, `memory`, or the URL of a PostgreSQL database (`postgresql://...`).
    """

    def __init__(self, location: str, metadata: sa.MetaData) -> None:
        self._location = location
        self._metadata = metadata
        self._prepare_lock = asyncio.Lock()
        self._is_prepared = False
        self._thread: ThreadPoolExecutor | None = None
        self._sync: sa.Engine | None = None
        self._async: AsyncEngine | None = None
        if location.startswith(("postgresql://", "postgres://")):
            address = "postgresql+asyncpg://" + location.partition("://")[2]
            self._async = create_async_engine(address, pool_size=4, max_overflow=4, pool_pre_ping=True)
        else:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sessions")
            self._sync = _sqlite(location)

    async def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs `work` in a transaction and returns its value once it is durable.

        Raises Unavailable, and ResourceExhausted if the disk is full; in both cases nothing is stored.
        """
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._prepare()
                return await self._in_transaction(work)
        except ArchonError:
            raise
        except TimeoutError:
            raise Unavailable(f"no answer of the session store within {TIMEOUT:g} s", retry_delay=1.0) from None
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise _to_archon_error(error) from error

    async def close(self) -> None:
        """Closes all connections; the next use opens the database again. Idempotent."""
        if self._async is not None:
            await self._async.dispose()
        if self._sync is not None and self._location != "memory":
            self._sync.dispose()

    async def _prepare(self) -> None:
        if self._is_prepared:
            return
        async with self._prepare_lock:
            if not self._is_prepared:
                await self._in_transaction(self._create_tables)
                self._is_prepared = True

    def _create_tables(self, connection: sa.Connection) -> None:
        # The lock makes concurrent callers wait: CREATE TABLE IF NOT EXISTS can fail if two run at once.
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


def _sqlite(location: str) -> sa.Engine:
    if location == "memory":
        return sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})

    def connect() -> sqlite3.Connection:
        private_file(Path(location))
        return sqlite3.connect(location, check_same_thread=False)

    engine = sa.create_engine(f"sqlite:///{location}", creator=connect)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _to_archon_error(error: Exception) -> ArchonError:
    message = str(getattr(error, "orig", None) or error)
    if any(phrase in message.lower() for phrase in _DISK_FULL) or "DiskFull" in message:
        return ResourceExhausted(f"the session store is full: {message}", retry_delay=1.0)
    return Unavailable(f"the session store is unavailable: {message}", retry_delay=1.0)
