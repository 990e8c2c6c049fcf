"""Signals as asyncio events, so that each command decides the effect of Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar

from archon_services.cli.errors import INTERRUPTED, Interrupted

T = TypeVar("T")

_HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Queues SIGINT, SIGTERM and SIGHUP while its block lasts. Enter it inside the running event loop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[signal.Signals] = asyncio.Queue()

    def __enter__(self) -> Signals:
        for signum in _HANDLED:
            asyncio.get_running_loop().add_signal_handler(signum, self._queue.put_nowait, signum)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum in _HANDLED:
            asyncio.get_running_loop().remove_signal_handler(signum)

    async def next(self) -> signal.Signals:
        """Waits for the next signal."""
        return await self._queue.get()

    async def race(self, task: asyncio.Future[Any]) -> signal.Signals | None:
        """Waits for `task` or a signal, whichever comes first; None if the task finished. Never cancels the task."""
        next_signal = asyncio.create_task(self.next(), name="wait for a signal")
        try:
            await asyncio.wait({task, next_signal}, return_when=asyncio.FIRST_COMPLETED)
            return None if task.done() else next_signal.result()
        finally:
            next_signal.cancel()

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of `work`. A signal cancels it and raises Interrupted."""
        task = asyncio.create_task(work)
        signum = await self.race(task)
        if signum is None:
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        raise Interrupted(exit_code(signum))


def exit_code(signum: signal.Signals, *, terminated: int = INTERRUPTED) -> int:
    """Returns 130 for SIGINT, and `terminated` for SIGTERM and SIGHUP."""
    return INTERRUPTED if signum is signal.SIGINT else terminated
