"""A service in the event loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from archon.errors import DeadlineExceeded

STARTED_WITHIN: Final = 30.0
"""Seconds in which a service starts."""

STOPPED_WITHIN: Final = 30.0
"""Seconds in which a service stops."""


class LocalService:
    """A service in this event loop. It has the same port after each start.

    `open_app` returns the context manager that serves on a port. `settings` are the values of its settings, which each
    start reads.
    """

    def __init__(self, open_app: Callable[..., AbstractAsyncContextManager[str]], **settings: Any) -> None:
        self.settings = settings
        self.address = ""
        self._open_app = open_app
        self._serving: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether the service is running."""
        return self._serving is not None and not self._serving.done()

    async def start(self) -> str:
        """Starts the service and returns its address. Raises the error with which it fails to start, DeadlineExceeded
        after STARTED_WITHIN seconds."""
        assert not self.running, "the service is running"
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(ready, self._ending), name="service in process")
        started: list[asyncio.Future[Any]] = [self._serving, ready]
        await asyncio.wait(started, timeout=STARTED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            if not self._serving.done():
                await self.kill()
                raise DeadlineExceeded(f"the service does not start within {STARTED_WITHIN:g} s")
            await self._serving
        self.address = await ready
        return self.address

    async def stop(self) -> int:
        """Ends the service as SIGTERM does. Returns 0, as the exit code of a process. Idempotent."""
        self._ending.set()
        await self._ended()
        return 0

    async def kill(self) -> None:
        """Ends the service as a crash does: it hands nothing over. Idempotent."""
        if self._serving is not None:
            self._serving.cancel()
            await self._ended()

    async def _serve(self, ready: asyncio.Future[str], ending: asyncio.Event) -> None:
        port = int(self.address.rpartition(":")[2] or 0)
        async with self._open_app(**{"port": port, **self.settings}) as address:
            ready.set_result(address)
            await ending.wait()

    async def _ended(self) -> None:
        if self._serving is None:
            return
        async with asyncio.timeout(STOPPED_WITHIN):
            await asyncio.wait([self._serving])
        serving, self._serving = self._serving, None
        if not serving.cancelled():
            serving.result()
