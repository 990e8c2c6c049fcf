"""One execution of a shared tool, which one or several callers with the same idempotency key wait for.

It ends with a result, or with an error if it was ended from outside: its lease was revoked, its owner stops, or no
caller waits for it any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from archon import status
from archon.api.tool.v1 import tool_pb2
from archon.clock import monotonic
from archon.errors import ArchonError, Internal, OperationCancelled
from archon.failure_kinds import TOOL_CRASH
from archon.surrogates import without_surrogates
from archon.tools.result import MAX_RESULT_BYTES, SharedToolResult, SharedToolStatus

MAX_PROGRESS: Final = 1_000
"""Characters of one text of progress; a longer one is cut."""

MAX_WAITING_PROGRESS: Final = 50
"""Texts of progress that wait for one caller to read them; older ones are dropped."""

GRACE: Final = 1.0
"""Seconds that a tool has to end after it was cancelled; then it is abandoned, and goes on holding its place."""

_log = logging.getLogger(__name__)


class _Listener:
    """A caller that waits for the execution."""

    def __init__(self) -> None:
        self.progress: deque[str] = deque(maxlen=MAX_WAITING_PROGRESS)
        self.news = asyncio.Event()

    def take(self) -> list[str]:
        """Returns the progress since the last time."""
        progress = list(self.progress)
        self.progress.clear()
        return progress


class Execution:
    """Executes `call` in a task of its own for at most `seconds`. `ended` is called once with it when its outcome is
    known; `left` when the tool itself has returned, which may be later if it ignores its cancellation."""

    def __init__(
        self, name: str, seconds: float, *, ended: Callable[[Execution], None], left: Callable[[Execution], None]
    ) -> None:
        self.name = name
        self.lease_id = ""
        self.span: Any = None
        """The span of the execution, None if this process makes none."""
        self.result: tool_pb2.ToolResult | None = None
        self.error: ArchonError | None = None
        self.took = 0.0
        """Seconds until the outcome was known."""
        self._seconds = seconds
        self._ended, self._left = ended, left
        self._listeners: list[_Listener] = []
        self._stop = asyncio.Event()
        self._began = monotonic()
        self._task: asyncio.Task[None] | None = None
        self._inner: asyncio.Task[Any] | None = None

    @property
    def done(self) -> bool:
        """Whether its outcome is known."""
        return self.result is not None or self.error is not None

    def start(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Starts the execution, within the context of the caller."""
        self._task = asyncio.create_task(self._supervise(call), name=f"shared tool {self.name}")

    def report(self, text: str) -> None:
        """Passes on progress to each caller that waits."""
        shown = without_surrogates(str(text)[:MAX_PROGRESS])
        for listener in self._listeners:
            listener.progress.append(shown)
            listener.news.set()

    def end(self, error: ArchonError) -> None:
        """Ends it with an error, unless its outcome is known: callers get the error at once, and the tool is
        cancelled."""
        if not self.done:
            self._finish(None, error)
            self._stop.set()

    async def events(self, seconds: float) -> AsyncGenerator[str | tool_pb2.ToolResult, None]:
        """Yields progress, then the result, for one caller; a result with the status TIMEOUT if there is none within
        `seconds`. Raises the error that ended it. If the last caller leaves early, the execution is cancelled."""
        listener = _Listener()
        self._listeners.append(listener)
        deadline = monotonic() + seconds
        try:
            while not self.done:
                try:
                    async with asyncio.timeout(max(0.0, deadline - monotonic())):
                        await listener.news.wait()
                except TimeoutError:
                    if not self.done:
                        yield late(seconds)
                        return
                listener.news.clear()
                for text in listener.take():
                    yield text
            for text in listener.take():
                yield text
        finally:
            self._listeners.remove(listener)
            if not self._listeners:
                self.end(abandoned())
        if self.error is not None:
            raise self.error
        assert self.result is not None
        yield self.result

    async def wait_left(self, seconds: float) -> bool:
        """Waits until the tool has returned, at most `seconds`. Returns whether it has."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=seconds)
        return self._inner is None or self._inner.done()

    async def _supervise(self, call: Callable[[], Awaitable[Any]]) -> None:
        inner = self._inner = asyncio.create_task(_guarded(call), name=f"shared tool {self.name}: call")
        inner.add_done_callback(lambda _: self._left(self))
        stopped = asyncio.create_task(self._stop.wait(), name=f"shared tool {self.name}: stop")
        try:
            await asyncio.wait({inner, stopped}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self.done:
                self._finish(late(self._seconds) if not inner.done() else self._result_of(inner), None)
        finally:
            stopped.cancel()
            if not self.done:
                self._finish(None, Internal("the execution was cancelled by the owner itself"))
            if not inner.done():
                inner.cancel()
                await asyncio.wait({inner}, timeout=GRACE)
                if not inner.done():
                    _log.warning("shared tool %s ignores that its call was cancelled; it is abandoned", self.name)

    def _result_of(self, inner: asyncio.Task[Any]) -> tool_pb2.ToolResult:
        value = None if inner.cancelled() else inner.result()
        if inner.cancelled():
            value = SharedToolResult(status=SharedToolStatus.ERROR, error_message="the tool cancelled its own call")
        return encoded(value, monotonic() - self._began)

    def _finish(self, result: tool_pb2.ToolResult | None, error: ArchonError | None) -> None:
        self.result, self.error, self.took = result, error, monotonic() - self._began
        self._ended(self)
        for listener in self._listeners:
            listener.news.set()


async def _guarded(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - a tool may raise anything
        return failed(status.as_error(raised, TOOL_CRASH))


def failed(error: ArchonError) -> SharedToolResult:
    """Returns the result of a call that raised an error."""
    metadata = {"code": error.code, "reason": error.reason, "kind": error.kind}
    return SharedToolResult(status=SharedToolStatus.ERROR, error_message=str(error), metadata=metadata)


def late(seconds: float) -> tool_pb2.ToolResult:
    """Returns the result of a call that was not answered in time."""
    message = f"no answer within {round(seconds, 2):g} s"
    return SharedToolResult(status=SharedToolStatus.TIMEOUT, error_message=message, seconds=seconds).proto


def abandoned() -> ArchonError:
    """Returns the error of an execution that no caller waits for."""
    return OperationCancelled("the caller cancelled the call")


def encoded(value: Any, seconds: float) -> tool_pb2.ToolResult:
    """Returns a value of a tool as the message of its result; an error result if it is too large or not JSON."""
    result = value if isinstance(value, SharedToolResult) else SharedToolResult(value)
    result = SharedToolResult(result.content, result.status, result.error_message, seconds, result.metadata)
    try:
        message = result.proto
    except (TypeError, ValueError, RecursionError) as error:
        return _error(f"the result is not a JSON value: {error}", seconds)
    size = len(message.content_json.encode())
    if size > MAX_RESULT_BYTES:
        return _error(f"the result has {size:,} bytes, more than the {MAX_RESULT_BYTES:,} of a shared tool", seconds)
    return message


def _error(message: str, seconds: float) -> tool_pb2.ToolResult:
    metadata = {"code": "INVALID_ARGUMENT", "reason": "INVALID_ARGUMENT", "kind": TOOL_CRASH}
    return SharedToolResult(None, SharedToolStatus.ERROR, message, seconds, metadata).proto
