"""A session lock that admits one memory service at a time to a database.

Watchers see only the publishes of their own service, so two services on one database would miss each other's. The lock
ends with the session, and so with the process that holds it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import FailedPrecondition
from archon_services.memory.store.postgres.schema import SERVICE_LOCK
from archon_services.postgres.connections import STATEMENT_TIMEOUT, Connection
from archon_services.postgres.errors import to_archon_error

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the connection that holds the lock."""

ACQUIRE_TIMEOUT: Final = 5.0
"""Seconds to wait for an earlier service that is shutting down."""

# Without these, the session of a machine that vanished would hold the lock for hours.
_TCP_KEEPALIVE: Final = """
SELECT set_config('tcp_keepalives_idle', '2', false), set_config('tcp_keepalives_interval', '1', false),
       set_config('tcp_keepalives_count', '3', false)
"""


class ExclusiveLock:
    """Holds the lock, and acquires it again after a lost connection. `on_lost` is called if another service acquired it
    in between. `address` names the database in messages."""

    def __init__(self, dial: Callable[[], Awaitable[Connection]], on_lost: Callable[[], None], address: str) -> None:
        self._dial = dial
        self._on_lost = on_lost
        self._address = address
        self._connection: Connection | None = None
        self._loop = BackgroundLoop("memory: exclusive lock", self._hold, backoff_max=CHECK_INTERVAL)

    async def acquire(self) -> None:
        """Raises FailedPrecondition if another memory service holds the lock, and the errors of `dial`."""
        end = time.monotonic() + ACQUIRE_TIMEOUT
        while not await self._try_acquire():
            if time.monotonic() > end:
                raise FailedPrecondition(f"the database at {self._address} is in use by another memory service")
            await asyncio.sleep(0.2)
        self._loop.start()

    async def release(self) -> None:
        """Gives the lock up and closes its connection, within a second. Idempotent."""
        await self._loop.close(timeout=1.0)
        self._drop_connection()

    async def _try_acquire(self) -> bool:
        self._connection = self._connection or await self._dial()
        try:
            async with asyncio.timeout(STATEMENT_TIMEOUT):
                await self._connection.fetch(_TCP_KEEPALIVE)
                return bool(await self._connection.fetchval(SERVICE_LOCK))
        except BaseException:
            self._drop_connection()
            raise

    async def _hold(self) -> None:
        """Checks the connection at intervals. Returns once another service holds the lock."""
        try:
            while True:
                if self._connection is None and not await self._try_acquire():
                    _log.critical("another memory service has taken over the database at %s", self._address)
                    self._on_lost()
                    return
                async with asyncio.timeout(STATEMENT_TIMEOUT):
                    assert self._connection is not None
                    await self._connection.fetch("SELECT 1")
                self._loop.report_progress()
                await asyncio.sleep(CHECK_INTERVAL)
        except Exception as error:
            self._drop_connection()
            raise to_archon_error(error, self._address) from error

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
