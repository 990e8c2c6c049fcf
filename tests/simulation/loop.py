"""An event loop in virtual time: nothing waits, time jumps to the next thing that is due. One seed, one course.

Processes live on it side by side: what one of them has begun bears its mark, and can be halted and let go on.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from itertools import count
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
        self._due: list[Due] = []
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
            self._loop.ready.extend(due)

    def kill(self) -> None:
        """SIGKILL: nothing of it happens again before the loop is taken down."""
        self.halt()
        self.dead = True

    def keep(self, due: Due) -> None:
        """Something came due while it was halted."""
        self._due.append(due)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this process."""
        return self._loop.create_task(work, context=self.context)

    def later(self, seconds: float, what: Callable[..., object], *arguments: Any) -> None:
        """A call within this process."""
        self._loop.call_at(self._loop.now + seconds, what, *arguments, context=self.context)


class Due:
    """A call that is to happen. Slimmer than asyncio's own handles: a course makes thousands of them."""

    __slots__ = ("args", "at", "callback", "context", "gone")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: Context, at: float) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.gone = False
        self.at = at

    def cancel(self) -> None:
        """It is thrown away when its turn has come; what it held, now."""
        self.gone = True
        self.callback = self.args = None  # type: ignore[assignment]

    def cancelled(self) -> bool:
        """As asyncio's."""
        return self.gone

    def when(self) -> float:
        """As asyncio's."""
        return self.at


class _NoNetwork(selectors.SelectSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`now` in seconds, from 0."""

    _stopping: bool
    get_debug = bool  # False; each future asks, and this needs no call of Python

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: list[Process] = []
        self.ready: deque[Due] = deque()
        self._timers: list[tuple[float, int, Due]] = []
        self._numbers = count(1)
        super().__init__(_NoNetwork())

    def time(self) -> float:
        """Virtual."""
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        """As any loop's, within the process of the context."""
        due = Due(callback, args, copy_context() if context is None else context, 0.0)
        self.ready.append(due)
        return due

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        """As any loop's, within the process of the context."""
        due = Due(callback, args, copy_context() if context is None else context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), due))  # what is due at one time comes in order
        return due

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        """As any loop's, within the process of the context."""
        when = self.now + delay
        due = Due(callback, args, copy_context() if context is None else context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), due))
        return due

    def create_future(self) -> asyncio.Future[Any]:
        """As any loop's."""
        return asyncio.Future(loop=self)

    def _run_once(self) -> None:
        """Until it is to stop: turn by turn, each of what was ready when it began."""
        ready, timers, pop = self.ready, self._timers, heapq.heappop
        while not self._stopping:
            if not ready:
                while timers and timers[0][2].gone:
                    pop(timers)
                if not timers:
                    raise RuntimeError("nothing will ever happen: every task waits for something that nobody will do")
                self.now = max(self.now, timers[0][0])
            while timers and timers[0][0] <= self.now:
                ready.append(pop(timers)[2])
            for _ in range(len(ready)):
                due = ready.popleft()
                if due.gone:
                    continue
                process = due.context.get(PROCESS)
                if process is not None and process.halted:
                    process.keep(due)
                else:
                    due.context.run(due.callback, *due.args)  # what it raises fails the seed


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
        del main, loop, pending
        gc.collect(1)  # here and not in the middle of something: what goes says so, with tracebacks
        gc.enable()
