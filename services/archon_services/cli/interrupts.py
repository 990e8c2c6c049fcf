"""Ctrl-C and its relatives as events, so that a command decides what each means."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar

from archon_services.cli.errors import INTERRUPTED, Interrupted

T = TypeVar("T")

_HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """SIGINT, SIGTERM and SIGHUP as they come, within the block. Enter it inside the running loop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[signal.Signals] = asyncio.Queue()

    def __enter__(self) -> Signals:
        for number in _HEARD:
            asyncio.get_running_loop().add_signal_handler(number, self._queue.put_nowait, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in _HEARD:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def next(self) -> signal.Signals:
        """The next one."""
        return await self._queue.get()

    async def race(self, task: asyncio.Task[Any]) -> signal.Signals | None:
        """Waits for the task or for a signal; None where the task ended first. The task goes on either way."""
        waiting = asyncio.create_task(self.next(), name="wait for a signal")
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return None if task.done() else waiting.result()
        finally:
            waiting.cancel()

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of `work`; a signal cancels it and raises Interrupted."""
        task = asyncio.create_task(work)
        number = await self.race(task)
        if number is None:
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        raise Interrupted(exit_code(number))


def exit_code(number: signal.Signals, *, asked: int = INTERRUPTED) -> int:
    """130 after Ctrl-C; `asked` after a signal by which another program ended this one."""
    return INTERRUPTED if number is signal.SIGINT else asked
