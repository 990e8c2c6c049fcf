"""An event loop in virtual time: nothing waits, time jumps to the next thing that is due. One seed, one course.

Processes live on it side by side: what one of them has begun bears its mark, and can be halted and let go on.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


class Process:
    """A simulated process of the operating system. All that is begun in its `context` is its own."""

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.halted = False
        self.dead = False
        self.halted_at = 0.0
        self._loop = loop
        self._due: list[asyncio.Handle] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        loop.processes.append(self)

    def __repr__(self) -> str:
        return self.name

    def halt(self) -> None:
        """SIGSTOP: what comes due waits."""
        if not self.halted:
            self.halted, self.halted_at = True, self._loop.now

    def go_on(self) -> None:
        """SIGCONT: all that has come due happens now."""
        if self.halted:
            self.halted = False
            due, self._due = self._due, []
            self._loop._ready.extend(due)

    def kill(self) -> None:
        """SIGKILL: nothing of it happens again before the loop is taken down."""
        self.halt()
        self.dead = True

    def keep(self, handle: asyncio.Handle) -> None:
        """Something came due while it was halted."""
        self._due.append(handle)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this process."""
        return self._loop.create_task(work, context=self.context)

    def later(self, seconds: float, what: Callable[..., object], *arguments: Any) -> None:
        """A call within this process."""
        self._loop.call_at(self._loop.now + seconds, what, *arguments, context=self.context)


class _Handle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None and process.halted:
            process.keep(self)
        else:
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None and process.halted:
            process.keep(self)
        else:
            super()._run()


class _NoNetwork(selectors.SelectSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`now` in seconds, from 0."""

    _ready: Any
    _scheduled: list[Any]

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: list[Process] = []
        self._timers = 0
        super().__init__(_NoNetwork())

    def time(self) -> float:
        """Virtual."""
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As any loop's, within the process of the context."""
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As any loop's, within the process of the context."""
        timer = _TimerHandle(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, timer))  # what is due at one time comes in order
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is thrown away when its time has come."""

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not ready:
            if not scheduled:
                raise RuntimeError("nothing will ever happen: every task waits for something that nobody will do")
            self.now = max(self.now, scheduled[0][0])
        while scheduled and scheduled[0][0] <= self.now:
            ready.append(heapq.heappop(scheduled)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs to the end; returns what `main` returns. No garbage is collected meanwhile: generators that are closed by the
    collector would make one course depend on those before it."""
    gc.collect(1)
    gc.disable()
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        for process in loop.processes:
            process.go_on()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()
        gc.enable()
