"""Supervised background loops: a loop that fails is logged and restarted with exponential backoff.

A process whose loop fails again and again with unexpected exceptions reports NOT_SERVING (see `archon.server`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final
from weakref import WeakSet

from archon.errors import FailedPrecondition, ResourceExhausted, Unavailable

_log = logging.getLogger(__name__)

EXPECTED: Final = (Unavailable, ResourceExhausted, FailedPrecondition)
"""Errors of a dependency that is unreachable, overloaded or misconfigured."""
UNHEALTHY_AFTER: Final = 5
"""Unexpected failures in a row after which a loop makes its process unhealthy."""

Body = Callable[[], Coroutine[Any, Any, None]]


class LoopMonitor:
    """The background loops of this process that are running. `subscribers` are called when `failing` changes."""

    def __init__(self) -> None:
        self.loops: WeakSet[BackgroundLoop] = WeakSet()
        self.subscribers: list[Callable[[], None]] = []

    @property
    def failing(self) -> list[str]:
        """The names of the loops that keep failing with unexpected exceptions."""
        return sorted(loop.name for loop in self.loops if loop.unexpected >= UNHEALTHY_AFTER)

    def notify(self) -> None:
        """Tells the subscribers that `failing` has changed."""
        for subscriber in list(self.subscribers):
            subscriber()


class BackgroundLoop:
    """Runs `body` in a task of its own until it returns or the loop is closed.

    If `body` raises, it is called again after a delay: `backoff_min` seconds, doubled with each failure in a row up to
    `backoff_max`, minus a random part of up to a half. A failure is in a row with the one before unless `body` called
    `report_progress` or ran longer than `backoff_max` in between. Exceptions of the `expected` types are logged as one
    line, the first in a row as a warning; any other is logged with its stack.
    """

    def __init__(
        self,
        name: str,
        body: Body,
        *,
        backoff_min: float = 0.1,
        backoff_max: float = 10.0,
        expected: tuple[type[Exception], ...] = EXPECTED,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.failures = 0
        """Failures in a row."""
        self.unexpected = 0
        """Failures in a row with exceptions that are not of the expected types."""
        self.last_error: BaseException | None = None
        self.name = name
        self._body = body
        self._backoff_min = backoff_min
        self._backoff_max = backoff_max
        self._expected = expected
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self._injected: BaseException | None = None

    @property
    def running(self) -> bool:
        """Whether the loop was started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts the loop; does nothing if it is running."""
        if not self.running:
            self._task = asyncio.create_task(self._run_monitored(), name=self.name)
            monitor.loops.add(self)

    async def close(self, *, grace: float = 0.0, timeout: float = 5.0) -> None:
        """Waits up to `grace` seconds for `body` to return, then cancels it. Idempotent."""
        task, self._task = self._task, None
        monitor.loops.discard(self)
        self._forget_failures()
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=grace)
        finally:
            task.cancel()
        if (await asyncio.wait([task], timeout=timeout))[1]:
            _log.error("background loop '%s' ignores its cancellation", self.name)

    def report_progress(self) -> None:
        """Ends a row of failures: the next one is retried after `backoff_min`."""
        if self.failures:
            _log.info("background loop '%s' recovered after %d failures", self.name, self.failures)
        self._forget_failures()

    def inject(self, error: Exception) -> None:
        """Makes `body` fail with this exception, as a test of its recovery does."""
        if self._task is not None:
            self._injected = error
            self._task.cancel()

    def _forget_failures(self) -> None:
        was_failing, self.failures, self.unexpected, self.last_error = self.unexpected >= UNHEALTHY_AFTER, 0, 0, None
        if was_failing:
            monitor.notify()

    async def _run_monitored(self) -> None:
        try:
            await self._run()
        finally:
            if asyncio.current_task() is self._task:  # else `close` has done it, and the loop may run again
                monitor.loops.discard(self)
                self._forget_failures()

    async def _run(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        while True:
            healthy = loop.call_later(self._backoff_max, self.report_progress) if self.failures else None
            try:
                return await self._body()
            except (Exception, asyncio.CancelledError) as error:
                injected, self._injected = self._injected, None
                if injected is not None:
                    task.uncancel()
                if task.cancelling():  # the loop is being closed, though a library may have raised another error
                    raise asyncio.CancelledError from error
                delay = self._record_failure(injected or error)
            finally:
                if healthy is not None:
                    healthy.cancel()
            await self._sleep(delay)

    def _record_failure(self, error: BaseException) -> float:
        """Returns the delay before the next call, in seconds."""
        exponent, self.failures, self.last_error = min(self.failures, 60), self.failures + 1, error
        delay = min(self._backoff_max, self._backoff_min * 2.0**exponent) * random.uniform(0.5, 1.0)
        is_expected = isinstance(error, self._expected)
        self.unexpected += not is_expected
        level = logging.ERROR if not is_expected else logging.WARNING if self.failures == 1 else logging.DEBUG
        text = "background loop '%s' failed (%d in a row), restarting in %.1f s: %s"
        _log.log(level, text, self.name, self.failures, delay, error, exc_info=None if is_expected else error)
        if self.unexpected == UNHEALTHY_AFTER and not is_expected:
            _log.error("background loop '%s' keeps failing: this process is not serving", self.name)
            monitor.notify()
        return delay


monitor: Final = LoopMonitor()
"""The loops of this process."""
