"""The way from a tool to the messages of the task that its agent works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from archon.errors import FailedPrecondition
from archon.types import Message


class MessageDesk(Protocol):
    """Sends and receives the messages of one task. All `key`s are ids of messages that a later attempt at the task
    repeats for the same call."""

    async def send(self, content: Any, receiver: str, message_type: str, key: str) -> str:
        """Sends a message and returns its id. An empty `receiver` stands for all that have subscribed."""
        ...

    async def request_help(self, issue: str, role: str, seconds: float, key: str) -> Message:
        """Requests help from a role and returns the answer."""
        ...

    async def read(self, topics: Sequence[str], seconds: float, most: int, size: int) -> tuple[list[Message], int]:
        """Returns at most `most` messages with `size` characters of content together that have arrived since the last
        call, and the number of those that are left. Waits for the first one for this many seconds."""
        ...

    async def reply(self, number: int, content: Any, message_type: str, topics: Sequence[str], key: str) -> str:
        """Answers a message, by its number in the run (`Message.seq`), and returns the id of the answer."""
        ...


_desk: ContextVar[MessageDesk | None] = ContextVar("archon_message_desk", default=None)


def message_desk() -> MessageDesk:
    """Returns the way to other agents. Raises FailedPrecondition outside a task of the mesh."""
    desk = _desk.get()
    if desk is None:
        raise FailedPrecondition("no messages can be exchanged here: the agent does not work on a task of the mesh")
    return desk


@contextmanager
def bind_message_desk(desk: MessageDesk) -> Iterator[None]:
    """Has the tools of messages use `desk` within the block."""
    token = _desk.set(desk)
    try:
        yield
    finally:
        _desk.reset(token)
