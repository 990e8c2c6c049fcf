"""Hears what is notified on one channel, over a connection of its own, as long as there is one. What passes meanwhile
isn't heard: whoever listens has to look from time to time anyway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from archon_services.postgres.connections import CONNECT_TIMEOUT, Connection
from archon_services.postgres.errors import explained

_log = logging.getLogger(__name__)

REDIAL: Final = 1.0
"""Seconds between two tries to connect."""


class Listener:
    """`heard` is called with each payload; `dial` makes a connection."""

    def __init__(
        self, dial: Callable[[], Awaitable[Connection]], channel: str, heard: Callable[[str], None], *, where: str
    ) -> None:
        self._dial = dial
        self._channel = channel
        self._heard = heard
        self._where = where
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()

    def start(self) -> None:
        """Until `close`."""
        self._task = asyncio.create_task(self._run(), name=f"listen-{self._channel}")

    async def close(self) -> None:
        """Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=2.0)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                _log.info("nobody listens to %s: %s", self._channel, explained(error, self._where))
            await asyncio.sleep(REDIAL)

    async def _listen(self) -> None:
        connection, lost = await self._dial(), asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await connection.add_listener(self._channel, self._told)
            self.listening.set()
            await lost.wait()
        finally:
            self.listening.clear()
            connection.terminate()

    def _told(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._heard(str(payload))
