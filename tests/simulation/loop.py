"""An event loop in virtual time: it never waits, time jumps to the next call that is due. A seed always gives the same
course.

Simulated processes share the loop. Every call belongs to the process that scheduled it, which can be halted and
continued.
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
from typing import Any, Final

PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


ROUNDS: Final = 10
"""How often the tasks that are left at the end are cancelled: their ends may start others."""

ROUND: Final = 60.0
"""Virtual seconds that tasks have to end after they were cancelled."""


class Process:
    """A simulated process of the operating system. All calls scheduled in its `context` belong to it."""

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
        """Halts the process, as SIGSTOP: calls that come due wait."""
        if not self.halted:
            self.halted, self.halted_at = True, self._loop.now

    def go_on(self) -> None:
        """Continues the process, as SIGCONT: calls that have come due are made now."""
        if self.halted:
            self.halted = False
            due, self._due = self._due, []
            self._loop.ready.extend(due)

    def kill(self) -> None:
        """Ends the process, as SIGKILL: none of its calls are made until the loop is closed."""
        self.halt()
        self.dead = True

    def keep(self, due: Due) -> None:
        """Stores a call that came due while the process was halted."""
        self._due.append(due)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a task in this process."""
        return self._loop.create_task(work, context=self.context)

    def later(self, seconds: float, what: Callable[..., object], *arguments: Any) -> None:
        """Schedules a call in this process."""
        self._loop.call_at(self._loop.now + seconds, what, *arguments, context=self.context)


class Due:
    """A scheduled call. It is smaller than asyncio's handles, because a course makes thousands of them."""

    __slots__ = ("args", "at", "callback", "context", "gone")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: Context, at: float) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.gone = False
        self.at = at

    def cancel(self) -> None:
        """Cancels the call. Its references are dropped now, the object itself when it comes due."""
        self.gone = True
        self.callback = self.args = None  # type: ignore[assignment]

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self.at


class _NoNetwork(selectors.SelectSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time `now` is virtual, in seconds from 0."""

    _stopping: bool
    get_debug = bool  # returns False without a Python call; every future calls it

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: list[Process] = []
        self.ready: deque[Due] = deque()
        self._timers: list[tuple[float, int, Due]] = []
        self._numbers = count(1)
        super().__init__(_NoNetwork())

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        due = Due(callback, args, copy_context() if context is None else context, 0.0)
        self.ready.append(due)
        return due

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        due = Due(callback, args, copy_context() if context is None else context, when)
        heapq.heappush(
            self._timers, (when, next(self._numbers), due)
        )  # the number keeps the order of calls that are due at the same time
        return due

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        when = self.now + delay
        due = Due(callback, args, copy_context() if context is None else context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), due))
        return due

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def _run_once(self) -> None:
        """Makes calls until the loop stops. Each turn makes the calls that were ready when it began."""
        ready, timers, pop = self.ready, self._timers, heapq.heappop
        while not self._stopping:
            if not ready:
                while timers and timers[0][2].gone:
                    pop(timers)
                if not timers:
                    raise RuntimeError("deadlock: no call is ready and no timer is set")
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
                    due.context.run(due.callback, *due.args)  # an exception fails the seed


async def end_other_tasks() -> None:
    """Cancels all tasks of the loop but the caller's, and waits for their ends. Processes that were halted continue."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for process in loop.processes:
        process.go_on()
    for _ in range(ROUNDS):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if not others:
            break
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=ROUND)


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs `main` in virtual time and returns its result. No garbage is collected meanwhile: generators that the
    collector closes would make a course depend on earlier courses."""
    gc.collect(1)
    gc.disable()
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(end_other_tasks())
        loop.close()
        del main, loop
        gc.collect(1)  # now, because objects that are collected log tracebacks
        gc.enable()
