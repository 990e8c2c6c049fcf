"""Connections to a database. Every wait has a deadline, and a failed connection is replaced by a new one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from archon.errors import ArchonError, Unavailable
from archon.failure_kinds import STORAGE
from archon_services.postgres.dsn import Dsn
from archon_services.postgres.errors import RETRY, is_connection_lost, to_archon_error

DEADLINE: Final = 10.0
"""Seconds that a caller waits for the database, retries included."""

STATEMENT_TIMEOUT: Final = 5.0
"""Seconds for one statement, after which its connection counts as lost."""

CONNECT_TIMEOUT: Final = 5.0
LOCK_TIMEOUT: Final = 2.0
POOL_SIZE: Final = 4
FREE_PAUSE: Final = 0.05
"""Seconds between two attempts to connect to a database that has no free connection."""
CLOSE_TIMEOUT: Final = 2.0

Connection: TypeAlias = asyncpg.Connection
T = TypeVar("T")

# synchronous_commit: overrides a server or role setting that may lose acknowledged commits; keeps a stronger one.
# enable_seqscan: a plan lives as long as its connection and may date from when the tables were empty, and every query
# has an index. The timeouts make the server give up when the client does.
_SESSION: Final = f"""
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
UNION ALL SELECT set_config(name, value, false) FROM (VALUES
  ('jit', 'off'),
  ('enable_seqscan', 'off'),
  ('statement_timeout', '{STATEMENT_TIMEOUT * 900:.0f}'),
  ('lock_timeout', '{LOCK_TIMEOUT * 1000:.0f}'),
  ('idle_in_transaction_session_timeout', '{DEADLINE * 1000:.0f}')
) AS settings (name, value)
"""


async def dial(dsn: Dsn, application: str) -> Connection:
    """Opens a connection. While the database has none that is free, waits for one. Raises the driver's errors and
    TimeoutError."""
    seconds = min(CONNECT_TIMEOUT, dsn.connect_timeout or CONNECT_TIMEOUT)
    end = time.monotonic() + seconds / 2
    while True:
        try:
            return await _dial_once(dsn, application, seconds)
        except asyncpg.TooManyConnectionsError:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(FREE_PAUSE)


async def _dial_once(dsn: Dsn, application: str, seconds: float) -> Connection:
    async with asyncio.timeout(seconds):
        connection: Connection = await asyncpg.connect(
            dsn.address, timeout=seconds, server_settings={"application_name": application}
        )
        await prepare(connection)
        return connection


async def prepare(connection: Any) -> None:
    """Applies the session settings. Terminates the connection on failure."""
    try:
        await connection.fetch(_SESSION)
    except BaseException:
        connection.terminate()
        raise


@asynccontextmanager
async def transaction(connection: Connection) -> AsyncIterator[None]:
    """Commits at the end of the block, or rolls back if it raises. Unlike the driver's transaction, it does not wait
    for the rollback on a lost connection, which its owner drops."""
    await connection.execute("BEGIN")
    try:
        yield
    except Exception as error:
        if not is_connection_lost(error):
            await connection.execute("ROLLBACK", timeout=CLOSE_TIMEOUT)
        raise
    await connection.execute("COMMIT")


async def _keep_session(_: Any) -> None:
    """Replaces the driver's reset of a released connection, which costs a round trip. No reset is needed: each use is
    one statement or a complete transaction."""


class Connections:
    """A bounded pool of `size` connections for statements that may be repeated: reads and idempotent writes. `size` may
    be changed until the pool is opened."""

    def __init__(self, dsn: Dsn, application: str, *, size: int = POOL_SIZE) -> None:
        self.dsn = dsn
        self._application = application
        self.size = size
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Opens the pool and one connection, so that an invalid address fails at once.

        Raises Unavailable, FailedPrecondition, InvalidArgument.
        """
        try:
            self._pool = asyncpg.create_pool(
                self.dsn.address,
                min_size=0,
                max_size=self.size,
                init=prepare,
                reset=_keep_session,
                timeout=min(CONNECT_TIMEOUT, self.dsn.connect_timeout or CONNECT_TIMEOUT),
                server_settings={"application_name": self._application},
            )
            async with asyncio.timeout(DEADLINE):
                await self._pool
        except Exception as error:  # noqa: BLE001 - converted, without the password that the driver's message may repeat
            raise to_archon_error(error, self.dsn.redacted) from None
        try:
            await self.fetch("SELECT 1")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Closes the pool. Idempotent."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await pool.close()
        except Exception:  # noqa: BLE001 - the database may be unreachable, and the pool is no longer used
            pool.terminate()

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """Executes one statement, committed, and returns all rows. Retries once on a new connection if the connection
        is lost. Raises only errors of `archon.errors`."""
        end = time.monotonic() + DEADLINE
        for last in (False, True):
            try:
                return await self._fetch_once(sql, arguments, min(STATEMENT_TIMEOUT, end - time.monotonic()))
            except ArchonError:
                raise
            except Exception as error:
                if last or not is_connection_lost(error):
                    raise to_archon_error(error, self.dsn.redacted) from error
        raise AssertionError("unreachable")

    async def transact(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Executes the statements of `work` in one transaction, once: after a lost connection it is unknown whether it
        was committed. Raises only errors of `archon.errors`."""

        async def committed(connection: Connection) -> None:
            async with transaction(connection):
                await work(connection)

        try:
            await self._use(committed, STATEMENT_TIMEOUT)
        except ArchonError:
            raise
        except Exception as error:
            raise to_archon_error(error, self.dsn.redacted) from error

    async def _fetch_once(self, sql: str, arguments: Sequence[object], seconds: float) -> list[asyncpg.Record]:
        return await self._use(lambda connection: connection.fetch(sql, *arguments), seconds)

    async def _use(self, work: Callable[[Any], Awaitable[T]], seconds: float) -> T:
        if self._pool is None:
            raise Unavailable("the database is closed", retry_delay=RETRY, kind=STORAGE)
        connection: Any = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._acquire(self._pool)
                return await work(connection)
        except BaseException as error:
            if connection is not None and not (isinstance(error, Exception) and not is_connection_lost(error)):
                connection.terminate()  # a cancelled statement may still be running on it
            raise
        finally:
            if connection is not None:
                await self._pool.release(connection, timeout=CLOSE_TIMEOUT)

    async def _acquire(self, pool: asyncpg.Pool) -> Any:
        """Waits while the database has no free connection: one of the pool may become free."""
        end = time.monotonic() + STATEMENT_TIMEOUT / 2
        while True:
            try:
                return await pool.acquire()
            except asyncpg.TooManyConnectionsError:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(FREE_PAUSE)
