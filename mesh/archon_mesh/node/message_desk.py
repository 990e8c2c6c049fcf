"""The messages of a task for the tools of its agent: those that the model has read, and those that it can answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from archon.agent import TaskContext
from archon.errors import InvalidArgument
from archon.types import Message
from archon_mesh.core.messages import ChatMessage
from archon_mesh.node.task_hooks import current_attempt
from archon_mesh.tools.messages.tools import MESSAGES, READ_TOOL
from archon_mesh.tools.result import ToolResult

FIRST_SECONDS: Final = 0.5
"""Seconds that the first call waits at least: the messages that were sent before come after the subscription."""

LOOK_UP_SECONDS: Final = 5.0
"""Seconds in which a message that an earlier attempt has read must come again."""


class TaskMessages:
    """The messages of one attempt, a MessageDesk. The mesh bounds them: 1,000, and 8 MiB, per run."""

    def __init__(self, task: TaskContext, read_before: frozenset[int] = frozenset()) -> None:
        """`read_before` are the numbers of the messages whose contents are in the conversation that this attempt goes
        on with; the mesh delivers them again."""
        self._task = task
        self._read_before = read_before
        self._known: dict[int, Message] = {}
        self._unread: deque[Message] = deque()
        self._receiving = asyncio.Lock()
        self._is_subscribed = False

    async def send(self, content: Any, receiver: str, message_type: str, key: str) -> str:
        return await self._task.send(content, receiver, type=message_type, message_id=key)

    async def request_help(self, issue: str, role: str, seconds: float, key: str) -> Message:
        if self._task.deadline is not None:
            seconds = max(0.0, min(seconds, self._task.deadline - time.monotonic()))
        attempt = current_attempt()
        checkpoint = attempt.checkpoint if attempt is not None else b""
        return await self._task.request_help(issue, role, timeout=seconds, message_id=key, checkpoint=checkpoint)

    async def read(self, topics: Sequence[str], seconds: float, most: int, size: int) -> tuple[list[Message], int]:
        await self._receive(topics, seconds if self._is_subscribed else max(seconds, FIRST_SECONDS))
        read: list[Message] = []
        while self._unread and len(read) < most:
            size -= len(self._unread[0].text)
            if size < 0 and read:
                break
            read.append(self._unread.popleft())
        return read, len(self._unread)

    async def reply(self, number: int, content: Any, message_type: str, topics: Sequence[str], key: str) -> str:
        message = self._known.get(number)
        if message is None and number in self._read_before:
            await self._receive(topics, LOOK_UP_SECONDS, number)
            message = self._known.get(number)
        if message is None:
            raise InvalidArgument(f"no message has the id {number}: read_messages returns the ids")
        return await self._task.send(
            content,
            message.sender_task_id,
            type=message_type,
            correlation_id=message.message_id,
            message_id=key,
        )

    async def _receive(self, topics: Sequence[str], seconds: float, wanted: int = 0) -> None:
        """Takes in the messages that have arrived; waits for the first unread one, or for the `wanted` one."""
        end = time.monotonic() + seconds
        async with self._receiving:
            self._is_subscribed = True
            while True:
                is_waiting = wanted not in self._known if wanted else not self._unread
                left = max(0.0, end - time.monotonic()) if is_waiting else 0.0
                message = await anext(self._task.messages(*topics, timeout=left), None)
                if message is None:
                    return
                self._known[message.seq] = message
                if message.seq not in self._read_before:
                    self._unread.append(message)


def read_before(messages: Iterable[ChatMessage], results: Mapping[int, ToolResult]) -> frozenset[int]:
    """Returns the numbers of the messages that a conversation has: those in its results of `read_messages`, and in the
    `results` of the calls of its last reply, by their index. A result that a hook has changed has none."""
    return frozenset(_numbers(list(messages), results))


def _numbers(messages: Sequence[ChatMessage], results: Mapping[int, ToolResult]) -> Iterator[int]:
    calls = {call.id for message in messages for call in message.tool_calls if call.name == READ_TOOL}
    for message in messages:
        if message.role == "tool" and message.tool_call_id in calls:
            yield from _numbers_of(message.content)
    for index, call in enumerate(messages[-1].tool_calls if messages else ()):
        if call.name == READ_TOOL and index in results:
            yield from _numbers_of(results[index].text)


def _numbers_of(text: str) -> Iterator[int]:
    try:
        numbers = [message["id"] for message in json.loads(text)[MESSAGES]]
    except (ValueError, RecursionError, LookupError, TypeError):
        return
    yield from (number for number in numbers if type(number) is int)
