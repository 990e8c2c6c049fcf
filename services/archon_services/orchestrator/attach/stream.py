"""One Attach stream: a spare one waits for an orchestrator that opens a session, or for a call, then it carries this
session or call alone.

Messages are passed on as they are. The requests of each side are read by the handler of the other, so that a side that
does not read slows the other down, and nothing waits here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from archon.errors import ArchonError, FailedPrecondition

END_TIMEOUT: Final = 1.0
"""Seconds that a handler has to notice that the other side has ended."""

_END: Final = b""
"""In place of a message: the stream has ended. A message of a session is never empty when it is passed on."""


class AttachStream:
    """`from_agent` are the messages of the agent after its registration; `takes_calls` says whether the stream may
    carry a call. Must be created in the task that serves it."""

    def __init__(self, from_agent: AsyncIterator[bytes], *, takes_calls: bool = False) -> None:
        self.takes_calls = takes_calls
        self.carried_call = False
        self._from_agent = from_agent
        self._next: asyncio.Future[bytes] = asyncio.ensure_future(anext(from_agent, _END))
        self._session: asyncio.Future[AsyncIterator[bytes]] = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.current_task()]
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._error: ArchonError | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = False

    @property
    def spare(self) -> bool:
        """Whether it waits for a session."""
        return not (self._session.done() or self._next.done() or self._over)

    def end(self, error: ArchonError | None = None) -> None:
        """Ends the stream and its session, with an error for the agent if one is given. Idempotent."""
        if self._over:
            return
        self._over, self._error = True, error
        self._ended.set_result(None)
        if not self._session.done():
            self._session.cancel()
        asyncio.get_running_loop().call_later(END_TIMEOUT, self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            if task is not None and not task.done():
                self._cancelled.add(task)
                task.cancel()

    def has_cancelled(self, task: asyncio.Task[Any]) -> bool:
        """Whether the stream has cancelled this task; otherwise gRPC has, because its call is lost."""
        return task in self._cancelled

    async def to_agent(self) -> AsyncIterator[bytes]:
        """Yields the messages for the agent. Returns when the agent or the session has ended. Raises FailedPrecondition
        if the agent sends frames before a session is open."""
        try:
            either: set[asyncio.Future[Any]] = {self._next, self._session}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._session.done() and not self._session.cancelled():
                async for message in _until_over(self._session.result(), self):
                    yield message
            elif self._next.done() and self._next.result():
                raise FailedPrecondition(
                    "frames came before Open: after Ready, an attached agent waits for Open", reason="SESSION_NOT_OPEN"
                )
            if self._error is not None:
                raise self._error
        finally:
            self.end()

    async def carry(self, to_agent: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yields the messages of the agent, which gets the session's messages. Returns when one of them has ended. The
        stream must be spare; the task that calls it serves the session."""
        self._tasks.append(asyncio.current_task())
        self._session.set_result(to_agent)
        try:
            first = await self._next
            if first:
                yield first
                async for message in _until_over(self._from_agent, self):
                    yield message
        finally:
            self.end()

    async def exchange(self, message: bytes) -> AsyncIterator[bytes]:
        """Sends the agent one message, and yields its messages until it ends the stream. The end of the iteration ends
        the stream. The stream must be spare. Raises the error that has ended it here."""
        hung_up = asyncio.Event()
        self.carried_call = True
        self._session.set_result(_once(message, hung_up))
        try:
            while True:
                either: set[asyncio.Future[Any]] = {self._next, self._ended}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if self._ended.done() or self._next.exception() is not None or not (answer := self._next.result()):
                    break
                yield answer
                self._next = asyncio.ensure_future(anext(self._from_agent, _END))
            if self._error is not None:
                raise self._error
        finally:
            hung_up.set()
            self.end()

    def close(self) -> None:
        """Stops reading the agent's messages; called when its handler has ended."""
        self.end()
        self._next.cancel()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over


async def _once(message: bytes, hung_up: asyncio.Event) -> AsyncIterator[bytes]:
    yield message
    await hung_up.wait()


async def _until_over(messages: AsyncIterator[bytes], stream: AttachStream) -> AsyncIterator[bytes]:
    """Yields messages until they or the stream end: `stream` cancels this task if it waits, and gRPC raises an error of
    its own when the requests of a call are read that has ended."""
    try:
        async for message in messages:
            if stream.over:
                return
            yield message
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not stream.has_cancelled(task):
            raise
        task.uncancel()
    except Exception:
        if not stream.over:
            raise
