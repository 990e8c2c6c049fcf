"""The lock by which an agent runs one query at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from archon.errors import FailedPrecondition
from archon_mesh.agent.state.call_slots import CallSlots


class RunLock:
    """Queries of one event loop wait for each other, in the order of their arrival. A query from another loop, in
    another thread, is refused meanwhile: a loop cannot wait for another one. So is a query for which the query before
    it waits, along any chain of calls."""

    def __init__(self, agent_name: str = "the agent") -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slot = CallSlots(agent_name)
        self._users = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Holds the lock within the block. Raises FailedPrecondition while the agent runs in another event loop, or if
        the query would wait for ever."""
        self._enter(asyncio.get_running_loop())
        try:
            async with self._slot.taken():
                yield
        finally:
            self._leave()

    def _enter(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._guard:
            if self._loop is not loop:
                if self._users and self._loop is not None and not self._loop.is_closed():
                    raise FailedPrecondition(
                        "the agent runs in another event loop or thread: give each thread an agent of its own, or wait "
                        "until that run has ended"
                    )
                self._loop, self._users = loop, 0
            self._users += 1

    def _leave(self) -> None:
        with self._guard:
            self._users -= 1
