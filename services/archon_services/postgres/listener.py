"""Receives the notifications of one channel over a connection of its own.

Notifications sent while there is no connection are lost: the receiver must poll from time to time anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from archon.background import BackgroundLoop
from archon.errors import Unavailable
from archon_services.postgres.connections import CONNECT_TIMEOUT, Connection
from archon_services.postgres.errors import to_archon_error

REDIAL_MIN: Final = 0.2
REDIAL_MAX: Final = 1.0
"""Seconds between two attempts to connect."""


class Listener:
    """Calls `on_payload` for each notification. `dial` makes a connection; `address` names the database in messages."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[Connection]],
        channel: str,
        on_payload: Callable[[str], None],
        *,
        address: str,
    ) -> None:
        self.listening = asyncio.Event()
        """Set while there is a connection."""
        self._dial = dial
        self._channel = channel
        self._on_payload = on_payload
        self._address = address
        self._loop = BackgroundLoop(f"listen-{channel}", self._listen, backoff_min=REDIAL_MIN, backoff_max=REDIAL_MAX)

    def start(self) -> None:
        """Starts to listen, until `close`."""
        self._loop.start()

    async def close(self) -> None:
        """Ends listening, within 2 s. Idempotent."""
        await self._loop.close(timeout=2.0)

    async def _listen(self) -> None:
        try:
            connection, lost = await self._dial(), asyncio.Event()
            try:
                connection.add_termination_listener(lambda _: lost.set())
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await connection.add_listener(self._channel, self._receive)
                self.listening.set()
                self._loop.report_progress()
                await lost.wait()
            finally:
                self.listening.clear()
                connection.terminate()
        except Exception as error:
            raise to_archon_error(error, self._address) from error
        raise Unavailable(f"the connection to {self._address} was lost")

    def _receive(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._on_payload(str(payload))
