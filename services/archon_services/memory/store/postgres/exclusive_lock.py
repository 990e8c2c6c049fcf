"""One memory service at a time per database, since its watchers hear what goes through it: a lock of the session says
whose it is, and goes with the process that holds it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from archon.errors import FailedPrecondition
from archon_services.memory.store.postgres.statements import SOLE_LOCK
from archon_services.postgres.connections import STATEMENT_TIMEOUT, Connection

_log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
PATIENCE: Final = 5.0
"""Seconds for which an earlier service may still be on its way out."""

# A machine that vanished would hold the lock for hours else.
_KEEPALIVE: Final = """
SELECT set_config('tcp_keepalives_idle', '2', false), set_config('tcp_keepalives_interval', '1', false),
       set_config('tcp_keepalives_count', '3', false)
"""


class Sole:
    """`lost` is called where another service has taken the lock after our connection died."""

    def __init__(self, dial: Callable[[], Awaitable[Connection]], lost: Callable[[], None], where: str) -> None:
        self._dial = dial
        self._lost = lost
        self._where = where
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Raises FailedPrecondition where another memory service has it, and what dialling raises."""
        end = time.monotonic() + PATIENCE
        while not await self._try():
            if time.monotonic() > end:
                raise FailedPrecondition(f"the database at {self._where} is in use by another memory service")
            await asyncio.sleep(0.2)
        self._task = asyncio.create_task(self._keep(), name="memory: sole")

    async def close(self) -> None:
        """Lets go. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1.0)
        self._drop()

    async def _try(self) -> bool:
        self._connection = self._connection or await self._dial()
        try:
            async with asyncio.timeout(STATEMENT_TIMEOUT):
                await self._connection.fetch(_KEEPALIVE)
                return bool(await self._connection.fetchval(SOLE_LOCK))
        except BaseException:
            self._drop()
            raise

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                if self._connection is None and not await self._try():
                    _log.critical("another memory service has taken the database at %s over", self._where)
                    self._lost()
                    return
                async with asyncio.timeout(STATEMENT_TIMEOUT):
                    assert self._connection is not None
                    await self._connection.fetch("SELECT 1")
            except Exception as error:  # noqa: BLE001 - the database is away: tried again until it is back
                _log.info("the lock of the memory service is to be taken again: %s", type(error).__name__)
                self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
