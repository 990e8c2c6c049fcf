"""The lock by which an agent runs one query at a time."""

from __future__ import annotations

import asyncio
import threading

from archon.errors import FailedPrecondition


class RunLock:
    """Queries of one event loop wait for each other, in the order of their arrival. A query from another loop, in
    another thread, is refused meanwhile: a loop cannot wait for another one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._users = 0

    def locked(self) -> bool:
        """Whether a query runs."""
        return self._lock.locked()

    async def __aenter__(self) -> None:
        """Raises FailedPrecondition while the agent runs in another event loop."""
        lock = self._enter(asyncio.get_running_loop())
        try:
            await lock.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        self._leave()

    def _enter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        with self._guard:
            if self._loop is not loop:
                if self._users and self._loop is not None and not self._loop.is_closed():
                    raise FailedPrecondition(
                        "the agent runs in another event loop or thread: give each thread an agent of its own, or wait "
                        "until that run has ended"
                    )
                self._loop, self._lock, self._users = loop, asyncio.Lock(), 0
            self._users += 1
            return self._lock

    def _leave(self) -> None:
        with self._guard:
            self._users -= 1
