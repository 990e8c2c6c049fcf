"""Connections to one database. Every wait has a deadline; a connection that failed is thrown away, the next is new."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import asyncpg

from archon.errors import ArchonError, Unavailable
from archon_services.postgres.dsn import Dsn
from archon_services.postgres.errors import RETRY, explained, is_lost

DEADLINE: Final = 10.0
"""Seconds that a caller waits for the database, repeats included."""

STATEMENT_TIMEOUT: Final = 5.0
"""Seconds for one statement; then its connection counts as lost."""

CONNECT_TIMEOUT: Final = 5.0
LOCK_TIMEOUT: Final = 2.0
POOL_SIZE: Final = 4
CLOSE_TIMEOUT: Final = 2.0

Connection: TypeAlias = asyncpg.Connection

# A server or a role that is set to lose acknowledged commits is overruled; a stronger setting stands.
# A plan is kept as long as its connection, and may have been made while tables were empty: an index always serves.
# The server gives up when we do.
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
    """A new connection. Raises what the driver raises, TimeoutError too."""
    wait = min(CONNECT_TIMEOUT, dsn.connect_timeout or CONNECT_TIMEOUT)
    async with asyncio.timeout(wait):
        connection: Connection = await asyncpg.connect(
            dsn.address, timeout=wait, server_settings={"application_name": application}
        )
        await prepare(connection)
        return connection


async def prepare(connection: Any) -> None:
    """Sets what all our sessions go by."""
    try:
        await connection.fetch(_SESSION)
    except BaseException:
        connection.terminate()
        raise


@asynccontextmanager
async def transaction(connection: Connection) -> AsyncIterator[None]:
    """Commits at the end of the block, rolls back where it fails. Unlike the driver's own it never waits for the
    rollback of a connection that doesn't answer: whoever owns that throws it away."""
    await connection.execute("BEGIN")
    try:
        yield
    except Exception as error:
        if not is_lost(error):
            await connection.execute("ROLLBACK", timeout=CLOSE_TIMEOUT)
        raise
    await connection.execute("COMMIT")


async def _keep_session(_: Any) -> None:
    """What the driver would do when a connection is given back is a round trip of its own, and nothing here needs it:
    each use is one statement, or a transaction that has ended."""


class Connections:
    """A bounded pool for statements that may be repeated: reads, and writes that come to the same when done twice."""

    def __init__(self, dsn: Dsn, application: str, *, size: int = POOL_SIZE) -> None:
        self.dsn = dsn
        self._application = application
        self._size = size
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Dials once, so that a wrong address is told at once.

        Raises Unavailable, FailedPrecondition, InvalidArgument.
        """
        try:
            self._pool = asyncpg.create_pool(
                self.dsn.address,
                min_size=0,
                max_size=self._size,
                init=prepare,
                reset=_keep_session,
                timeout=min(CONNECT_TIMEOUT, self.dsn.connect_timeout or CONNECT_TIMEOUT),
                server_settings={"application_name": self._application},
            )
            async with asyncio.timeout(DEADLINE):
                await self._pool
        except Exception as error:  # noqa: BLE001 - explained, without the address that the driver would repeat
            raise explained(error, self.dsn.shown) from None
        try:
            await self.fetch("SELECT 1")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Idempotent."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await pool.close()
        except Exception:  # noqa: BLE001 - the database may be away; what is closed is of no use any more
            pool.terminate()

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """All rows of one statement, committed. Where the connection is lost it is done once more, on a new one. Raises
        errors of our tree only."""
        end = time.monotonic() + DEADLINE
        for last in (False, True):
            try:
                return await self._once(sql, arguments, min(STATEMENT_TIMEOUT, end - time.monotonic()))
            except ArchonError:
                raise
            except Exception as error:
                if last or not is_lost(error):
                    raise explained(error, self.dsn.shown) from error
        raise AssertionError("unreachable")

    async def _once(self, sql: str, arguments: Sequence[object], seconds: float) -> list[asyncpg.Record]:
        if self._pool is None:
            raise Unavailable("the database is closed", retry_delay=RETRY)
        connection: Any = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._pool.acquire()
                rows: list[asyncpg.Record] = await connection.fetch(sql, *arguments)
                return rows
        except BaseException as error:
            if connection is not None and not (isinstance(error, Exception) and not is_lost(error)):
                connection.terminate()  # a cancelled statement may still be under way on it
            raise
        finally:
            if connection is not None:
                await self._pool.release(connection, timeout=CLOSE_TIMEOUT)
