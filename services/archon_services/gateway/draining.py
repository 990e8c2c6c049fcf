"""The time between SIGTERM and the stop, in which proxies before the gateway notice, and use other replicas."""

from __future__ import annotations

import logging
from asyncio import sleep

_log = logging.getLogger(__name__)


class Draining:
    """Whether the gateway has begun to stop. `seconds` is how long it goes on serving from then on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begun = False

    async def drain(self) -> None:
        """Begins to stop, and returns when the time has passed."""
        self.begun = True
        if self._seconds:
            _log.info("serving for another %g s, so that proxies notice the stop", self._seconds)
            await sleep(self._seconds)
