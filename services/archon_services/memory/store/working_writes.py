"""Writes under way: they go on without their caller, and what they hold has a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from archon.errors import ResourceExhausted
from archon_services.memory.domain.working import Write, Written
from archon_services.memory.store.sql_store import within

MAX_UNDER_WAY: Final = 64 * 1024 * 1024
"""Characters of all writes under way."""

_EACH: Final = 1024
"""Characters that a write counts for beside its value."""


class Writes:
    """`write` carries one out, durable on return."""

    def __init__(self, write: Callable[[Write], Coroutine[Any, Any, Written]]) -> None:
        self._write = write
        self._under_way: set[asyncio.Task[Written]] = set()
        self._size = 0

    async def do(self, given: Write) -> Written:
        """Raises what it raises, Unavailable where it takes too long, ResourceExhausted where too much is under way."""
        size = _EACH + len(given.value_json or "")
        if self._size + size > MAX_UNDER_WAY:
            raise ResourceExhausted("too much is being written to working memory", retry_delay=0.5)
        self._size += size
        # A task of its own: what it holds is held until it is done, also where the caller has gone meanwhile.
        task = asyncio.create_task(self._write(given), name="memory: write")

        def over(done: asyncio.Future[Written]) -> None:
            self._size -= size
            self._under_way.discard(task)
            if not done.cancelled():
                done.exception()  # it has been seen, whether or not a caller is there

        self._under_way.add(task)
        task.add_done_callback(over)
        return await within(asyncio.shield(task))
