"""Limits of time that stand still while the work waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar


class _Limit:
    """A limit of time, and how many waits for people have stopped it."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._waits = 0
        self._left = 0.0
        self.is_over = False

    def stop(self) -> None:
        self._waits += 1
        if self._waits == 1 and (when := self._timeout.when()) is not None and self._is_running:
            self._left = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        self._waits -= 1
        if not self._waits and self._left and self._is_running:
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = 0.0

    @property
    def _is_running(self) -> bool:
        return not self.is_over and not self._timeout.expired()


_limits: ContextVar[tuple[_Limit, ...]] = ContextVar("archon_limits_of_work", default=())


@asynccontextmanager
async def work_time(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Limits the time of the work within the block as `asyncio.timeout` does. The time in which the work, or a task
    that it has started, waits for a person does not count."""
    async with asyncio.timeout(seconds) as timeout:
        limit = _Limit(timeout)
        token = _limits.set((*_limits.get(), limit))
        try:
            yield timeout
        finally:
            limit.is_over = True
            _limits.reset(token)


@contextmanager
def person_time() -> Iterator[None]:
    """Stops the limits of the work that this code is a part of: within the block it waits for a person."""
    limits = _limits.get()
    for limit in limits:
        limit.stop()
    try:
        yield
    finally:
        for limit in limits:
            limit.go_on()
