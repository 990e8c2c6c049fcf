"""The messages that an attempt has received and its handler has not read yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from archon.errors import DeadlineExceeded
from archon.types.message import Message

REPLY_PREFIX: Final = "q-"
"""Begins the ids of messages that wait for a reply: replies to them are for `reply_to`, and not among the others."""


class Inbox:
    """Messages in the order in which they arrived, each once. The mesh bounds them: 1,000, and 8 MiB, per run."""

    def __init__(self) -> None:
        self._unread: deque[Message] = deque()
        self._handled: deque[Message] = deque()
        self._handled_topics: frozenset[str] | None = None
        self._seen: set[int] = set()
        self._replies: dict[str, Message] = {}
        self._changed = asyncio.Event()
        self.read_seq = 0
        """The highest number of a message that was read."""

    def put(self, message: Message) -> None:
        """Takes a message in. One that has come before is dropped: a new owner of the run sends all of them again."""
        if message.seq in self._seen:
            return
        self._seen.add(message.seq)
        if message.correlation_id.startswith(REPLY_PREFIX):
            self._replies.setdefault(message.correlation_id, message)
        else:
            (self._handled if self._is_handled(message) else self._unread).append(message)
        self._changed.set()

    def keep_apart(self, topics: frozenset[str]) -> None:
        """Keeps the messages with a receiver, and the messages of these topics, for `handled`."""
        self._handled_topics = topics

    def _is_handled(self, message: Message) -> bool:
        if self._handled_topics is None:
            return False
        names = {"broadcast", f"type:{message.message_type}"}
        return bool(message.receiver_id) or not names.isdisjoint(self._handled_topics)

    async def next(self) -> Message:
        """Returns the next message, and waits for it."""
        return await self._first(self._unread)

    async def handled(self) -> AsyncIterator[Message]:
        """Yields the messages that are kept apart, without end."""
        while True:
            yield await self._first(self._handled)

    async def reply_to(self, message_id: str) -> Message:
        """Returns the first reply to a message, and waits for it."""
        while message_id not in self._replies:
            await self._wait()
        return self._note(self._replies.pop(message_id))

    def messages(self, after: int, quiet: float | None) -> AsyncIterator[Message]:
        """Iterates over messages with a number above `after`, until none has come for `quiet` seconds; None: without
        end."""
        return _Unread(self, after, quiet)

    async def within(self, message_id: str, seconds: float) -> Message:
        """Returns the reply to a message. Raises DeadlineExceeded if none comes within this time."""
        try:
            async with asyncio.timeout(seconds):
                return await self.reply_to(message_id)
        except TimeoutError:
            raise DeadlineExceeded(f"no reply came within {seconds:g} s") from None

    async def _first(self, queue: deque[Message]) -> Message:
        while not queue:
            await self._wait()
        return self._note(queue.popleft())

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _note(self, message: Message) -> Message:
        self.read_seq = max(self.read_seq, message.seq)
        return message


class _Unread(AsyncIterator[Message]):
    """No generator: a handler may leave its loop at any message, and there is nothing to close."""

    def __init__(self, inbox: Inbox, after: int, quiet: float | None) -> None:
        self._inbox = inbox
        self._after = after
        self._quiet = quiet

    async def __anext__(self) -> Message:
        while True:
            try:
                async with asyncio.timeout(self._quiet):
                    message = await self._inbox.next()
            except TimeoutError:
                raise StopAsyncIteration from None
            if message.seq > self._after:
                return message
