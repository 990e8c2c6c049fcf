"""Writes to working memory in flight: they outlive their callers, and their size is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from archon.errors import ResourceExhausted
from archon.failure_kinds import STORAGE
from archon_services.memory.domain.working import Write, Written
from archon_services.memory.store.sql_store import with_timeout

MAX_IN_FLIGHT: Final = 64 * 1024 * 1024
"""Characters of all writes in flight."""

_OVERHEAD: Final = 1024
"""Characters that a write counts for besides its value."""


class WritesInFlight:
    """Runs `write`, which is durable on return, in a task per request. `changed` is called after each."""

    def __init__(
        self, write: Callable[[Write], Coroutine[Any, Any, Written]], changed: Callable[[Write], object]
    ) -> None:
        self._write = write
        self._changed = changed
        self._tasks: set[asyncio.Task[Written]] = set()
        self._size = 0

    async def do(self, request: Write) -> Written:
        """Raises the errors of `write`, Unavailable after a timeout, and ResourceExhausted if too much is in flight."""
        size = _OVERHEAD + len(request.value_json or "")
        if self._size + size > MAX_IN_FLIGHT:
            raise ResourceExhausted("too many writes to working memory in flight", retry_delay=0.5, kind=STORAGE)
        self._size += size
        # A task of its own: its memory counts until it is done, even if the caller is cancelled.
        task = asyncio.create_task(self._write(request), name="memory: write")

        def release(done: asyncio.Future[Written]) -> None:
            self._size -= size
            self._tasks.discard(task)
            self._changed(request)  # also after an error: the write may be durable
            if not done.cancelled():
                done.exception()  # mark it as retrieved, in case the caller is gone

        self._tasks.add(task)
        task.add_done_callback(release)
        return await with_timeout(asyncio.shield(task))
