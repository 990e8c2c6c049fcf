"""Time that a test moves on, for agents, plans, workflows and tools in the test's process."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import heapq
import math
import os
import selectors
import socket
import threading
from itertools import count
from types import TracebackType
from typing import Any, Final

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument
from archon_mesh.testing import process_clock

PATIENCE: Final = 10.0
"""Seconds of the machine that a block waits for sockets, threads or nothing at all, before it ends with an error."""

STILL: Final = 1.0
"""Seconds of the machine after each move in which the clock stands still: computations take no time, so that limits end
in the same order on every machine. Then it runs on, so that a loop that polls the clock ends."""

MAX_JUMPS: Final = 100_000
"""Automatic jumps of a block between two calls of `advance`: a task that sleeps again and again would let time pass for
ever if the test waits for something that never comes."""

_TICK: Final = 1e-9
"""Seconds: timers that are as close together are due at the same time, for event loops as well."""

_active: VirtualTime | None = None


def is_active() -> bool:
    """Whether a block of VirtualTime is entered in this process."""
    return _active is not None and _active._loop is not None and not _active._loop.is_closed()


class VirtualTime:
    """The time of the event loop in which its block is entered. It passes without waiting:

        async with VirtualTime() as time:
            run = asyncio.create_task(agent.run_async("Wait for the reply."))
            await time.advance(30)
            assert not run.done()
            assert await run == "no reply within a minute" and time.now == 60

    When nothing can run, time jumps to the next timer: `asyncio.sleep`, `asyncio.timeout`, pauses of retries, limits of
    models, tools and plans. `await`ing the result is therefore enough. With `skipping=False` time stands still until
    `advance`. Timers fire in their order, one after the other; the tasks that they wake run before time passes on.

    It jumps only when that is sound: nothing outside of the event loop can wake it. While a socket is open, or a
    thread, an executor or a child process is working, the loop waits for it, and time passes as the machine's after
    STILL seconds. A test that has waited for `patience` seconds since the last jump ends with FailedPrecondition, which
    names the sockets and threads. A mesh has sockets that are always open: its time is moved by `InProcessMesh.advance`
    and `advance_until`. Threads that were started before the block are not seen.

    `time.monotonic` is replaced in the whole process, and stays ahead after the block: a clock that went back would
    leave timers waiting for days. `time.time` and `datetime` do not move. There is one block in a process at a time,
    and it needs asyncio's own event loop: uvloop has a clock of its own.
    """

    def __init__(self, *, skipping: bool = True, patience: float = PATIENCE) -> None:
        """Raises InvalidArgument if `patience` is not above 0 s."""
        if not patience > 0:
            raise InvalidArgument(f"patience must be above 0 s, not {patience!r}")
        self._skipping = skipping
        self._patience = patience
        self._loop: asyncio.SelectorEventLoop | None = None
        self._selector: selectors.BaseSelector
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        self._error: ArchonError | None = None
        self._began = 0.0
        self._ended = 0.0
        self._waited = 0.0
        self._jumps = 0
        self._executing: set[asyncio.Future[Any]] = set()
        self._threads: set[threading.Thread] = set()
        self._stops: list[tuple[float, int, asyncio.Future[None]]] = []
        """The times at which calls of `advance` return."""
        self._numbers = count()

    @property
    def now(self) -> float:
        """The virtual seconds since the block was entered; after it, the seconds that it took."""
        until = process_clock.now() if self._loop is not None else self._ended
        return round(until - self._began, 6)

    async def advance(self, seconds: float) -> None:
        """Lets `seconds` pass: timers that come due on the way fire in their order. Returns when everything that can
        run at that time has run, in threads too.

        Raises InvalidArgument if `seconds` is negative, and FailedPrecondition outside of the block, or in another
        event loop.
        """
        if not 0 <= seconds < math.inf:
            raise InvalidArgument(f"time goes forward, by a number of seconds from 0 on, not by {seconds!r}")
        if self._loop is None:
            raise FailedPrecondition("time moves inside of its block only: async with VirtualTime() as time")
        if asyncio.get_running_loop() is not self._loop:
            raise FailedPrecondition(
                "this VirtualTime was entered in another event loop: a fixture and its test need the same loop_scope"
            )
        self._jumps, self._waited = 0, 0.0
        passed: asyncio.Future[None] = self._loop.create_future()
        heapq.heappush(self._stops, (process_clock.now() + seconds, next(self._numbers), passed))
        await passed

    async def __aenter__(self) -> VirtualTime:
        """Raises FailedPrecondition if a block is entered already in this process, the event loop is not asyncio's own,
        or another library has replaced the clock."""
        global _active
        if is_active():
            raise FailedPrecondition("there is a VirtualTime in this process already: one clock has one owner")
        loop = asyncio.get_running_loop()
        if not isinstance(loop, asyncio.SelectorEventLoop) or type(loop).time is not asyncio.BaseEventLoop.time:
            raise FailedPrecondition(
                f"virtual time needs asyncio's own event loop: {type(loop).__module__}.{type(loop).__name__} has a "
                "clock of its own"
            )
        process_clock.install()
        _active, self._loop, self._error = self, loop, None
        self._task = asyncio.current_task()
        self._cancelled_before = self._task.cancelling() if self._task is not None else 0
        self._threads = set(threading.enumerate())
        self._waited, self._jumps, self._executing = 0.0, 0, set()
        process_clock.move_to(process_clock.now(), still=STILL)
        self._began = process_clock.now()
        self._selector = loop._selector  # type: ignore[attr-defined]
        loop._selector = _Selector(self, self._selector)  # type: ignore[attr-defined]
        setattr(loop, "run_in_executor", self._run_in_executor)  # noqa: B010 - mypy refuses to assign to a method
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises FailedPrecondition if the block was ended because it waited for too long."""
        global _active
        loop, self._loop, _active = self._loop, None, None
        if loop is None:
            return
        self._ended = process_clock.now()
        loop._selector = self._selector  # type: ignore[attr-defined]
        vars(loop).pop("run_in_executor", None)
        for _, _, passed in self._stops:
            passed.cancel()
        self._stops.clear()
        process_clock.move_to(self._ended)
        if self._error is not None and self._task is not None:
            was_ours = self._task.uncancel() <= self._cancelled_before
            if error is None or (was_ours and isinstance(error, asyncio.CancelledError)):
                raise self._error from None

    # What the event loop asks in place of its selector

    def _select(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns the events of sockets. The loop has nothing to run unless `timeout` is 0."""
        if timeout is not None and timeout <= 0:
            return self._selector.select(0)
        outside = self._outside()  # before the events: a thread that has ended since has left one
        if events := self._selector.select(0):
            return events
        if not process_clock.installed():
            self._fail("time.monotonic was replaced in the block, as libraries do that freeze the time")
            return []
        if not outside and self._jump(timeout):
            self._waited = 0.0
            return []
        if self._is_stop_due() and all(_is_socket(each) for each in outside):
            self._return_stops()
            return []
        return self._wait(timeout, outside)

    def _jump(self, timeout: float | None) -> bool:
        """Moves the clock to the next timer, or to the end of a call of `advance`. Returns whether there is one."""
        now = process_clock.now()
        timer = math.inf if timeout is None else now + timeout
        if self._stops and (self._is_stop_due() or self._stops[0][0] < timer - _tick(now)):
            process_clock.move_to(max(now, self._stops[0][0]), still=STILL)
            self._return_stops()
            return True
        if timer == math.inf or not (self._skipping or self._stops):
            return False
        if not self._stops:
            self._jumps += 1
            if self._jumps > MAX_JUMPS:
                self._fail(
                    f"time has jumped {MAX_JUMPS:,} times, by {self.now:,.0f} s in all, and the test still waits: a "
                    "task sleeps again and again, and the test waits for another event; move the time by `advance`"
                )
                return True
        # Its tasks run before a call of `advance` returns. An event loop fires a timer after its time only: with a
        # clock of months it adds a resolution to its time that the number cannot hold.
        process_clock.move_to(timer if timer + _TICK > timer else math.nextafter(timer, math.inf), still=STILL)
        return True

    def _wait(self, timeout: float | None, outside: list[object]) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits as the machine does, for sockets and threads, or for the next timer."""
        if self._waited >= self._patience:
            self._fail(self._why(timeout, outside))
            return []
        now = process_clock.now()
        times = [now + timeout] if timeout is not None else []
        times += [at for at, _, _ in self._stops[:1] if at > now]
        left = min([self._patience - self._waited, *map(process_clock.machine_seconds_until, times)])
        began = process_clock.machine()
        events = self._selector.select(left)
        self._waited += process_clock.machine() - began
        return events

    def _is_stop_due(self) -> bool:
        """Whether the time of a call of `advance` has come."""
        now = process_clock.now()
        return bool(self._stops) and self._stops[0][0] <= now + _tick(now)

    def _return_stops(self) -> None:
        """Lets the calls of `advance` return whose time has come."""
        while self._is_stop_due():
            passed = heapq.heappop(self._stops)[2]
            if not passed.done():
                passed.set_result(None)

    def _outside(self) -> list[object]:
        """Returns everything that may wake the loop from outside: sockets, threads, functions in executors."""
        own = getattr(self._loop, "_ssock", None)  # by which threads and signals wake the loop
        sockets = self._selector.get_map()
        found: list[object] = []
        if sockets is not None and len(sockets) > 1:
            found += [key.fileobj for key in sockets.values() if key.fileobj not in (own, own and own.fileno())]
        workers = getattr(concurrent.futures.thread, "_threads_queues", {})  # idle, or counted by their functions
        found += [each for each in threading.enumerate() if each not in self._threads and each not in workers]
        return [*found, *self._executing]

    def _why(self, timeout: float | None, outside: list[object]) -> str:
        waited = f"the test has waited for {self._patience:g} s of the machine"
        if outside:
            return (
                f"{waited}, and time cannot be skipped while something outside of the event loop may wake it: "
                f"{', '.join(map(_name, outside[:5]))}; a mesh is moved by `InProcessMesh.advance`, slow work needs "
                "more `patience`"
            )
        if timeout is not None:
            return f"{waited} for a timer, and time stands still: `advance` moves it, or `skipping=True`"
        return f"{waited}, and nothing will wake it: no timer is set, no socket is open and no thread is working"

    def _fail(self, why: str) -> None:
        """Ends the block: its task is cancelled, and the block raises the error. If another task has entered it, as for
        a fixture, the error is raised from the loop."""
        error = FailedPrecondition(why)
        self._waited, self._jumps = 0.0, 0
        if self._task is None or self._task.done():
            raise error
        self._error = error
        self._task.cancel()

    def _run_in_executor(self, executor: Any, function: Any, *arguments: Any) -> asyncio.Future[Any]:
        """Counts the functions in executors, which end in threads that the loop does not know."""
        assert self._loop is not None
        future = asyncio.SelectorEventLoop.run_in_executor(self._loop, executor, function, *arguments)
        self._executing.add(future)
        future.add_done_callback(self._executing.discard)
        return future


class _Selector:
    """Takes the place of an event loop's selector: the loop asks it when it would wait."""

    def __init__(self, time: VirtualTime, selector: selectors.BaseSelector) -> None:
        self._time = time
        self._selector = selector

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self._time._select(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


def _tick(now: float) -> float:
    """Returns the seconds within which times are the same: a clock of years has no finer ones."""
    return max(_TICK, 4 * math.ulp(now))


def _is_socket(outside: object) -> bool:
    return not isinstance(outside, (threading.Thread, asyncio.Future))


def _name(outside: object) -> str:
    """Names a socket, a thread, or a function in an executor."""
    if isinstance(outside, threading.Thread):
        return f"the thread {outside.name}"
    if isinstance(outside, asyncio.Future):
        return "a function in an executor"
    try:
        number = outside if isinstance(outside, int) else outside.fileno()  # type: ignore[attr-defined]
        with socket.socket(fileno=os.dup(number)) as copy:
            if copy.family == socket.AF_UNIX:
                return "a local socket, as each event loop with gRPC has"
            return f"the socket of port {copy.getsockname()[1]}"
    except (OSError, AttributeError):
        return f"the file {outside!r}"
