"""Supervised background loops: a loop that fails is logged and restarted with exponential backoff."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from archon.errors import FailedPrecondition, ResourceExhausted, Unavailable

_log = logging.getLogger(__name__)

EXPECTED: Final = (Unavailable, ResourceExhausted, FailedPrecondition)
"""Errors of a dependency that is unreachable, overloaded or misconfigured."""
Body = Callable[[], Coroutine[Any, Any, None]]


class BackgroundLoop:
    """Runs `body` in a task of its own until it returns or the loop is closed.

    If `body` raises, it is called again after a delay: `backoff_min` seconds, doubled with each failure in a row up to
    `backoff_max`, of which a random part of up to a half is left out. A failure is in a row with the one before unless
    `body` called `report_progress` or ran longer than `backoff_max` in between. Exceptions of the `expected` types are
    logged as one line, the first in a row as a warning; any other is logged with its stack.
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
        self.last_error: BaseException | None = None
        self._name = name
        self._body = body
        self._backoff_min = backoff_min
        self._backoff_max = backoff_max
        self._expected = expected
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the loop was started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts the loop; does nothing if it is running."""
        if not self.running:
            self._task = asyncio.create_task(self._run(), name=self._name)

    async def close(self, *, grace: float = 0.0, timeout: float = 5.0) -> None:
        """Waits up to `grace` seconds for `body` to return, then cancels it. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=grace)
        finally:
            task.cancel()
        if (await asyncio.wait([task], timeout=timeout))[1]:
            _log.error("background loop '%s' ignores its cancellation", self._name)

    def report_progress(self) -> None:
        """Ends a row of failures: the next one is retried after `backoff_min`."""
        if self.failures:
            _log.info("background loop '%s' recovered after %d failures", self._name, self.failures)
        self.failures, self.last_error = 0, None

    async def _run(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            started = loop.time()
            try:
                return await self._body()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # else the body awaited something that was cancelled, which is a failure like any other
                if loop.time() - started > self._backoff_max:
                    self.failures = 0
                await self._sleep(self._record_failure(error))

    def _record_failure(self, error: BaseException) -> float:
        """Returns the delay before the next call, in seconds."""
        exponent, self.failures, self.last_error = min(self.failures, 60), self.failures + 1, error
        delay = min(self._backoff_max, self._backoff_min * 2.0**exponent) * random.uniform(0.5, 1.0)
        is_expected = isinstance(error, self._expected)
        level = logging.ERROR if not is_expected else logging.WARNING if self.failures == 1 else logging.DEBUG
        text = "background loop '%s' failed (%d in a row), restarting in %.1f s: %s"
        _log.log(level, text, self._name, self.failures, delay, error, exc_info=None if is_expected else error)
        return delay
