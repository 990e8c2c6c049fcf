"""The inbox of an attempt: each message once, replies apart, and the messages that another handler takes."""

from __future__ import annotations

import asyncio

import pytest

from archon.agent.inbox import Inbox
from archon.errors import DeadlineExceeded
from archon.types import Message, MessageType


def message(
    seq: int, *, receiver: str = "me", kind: MessageType = MessageType.NOTIFICATION, about: str = ""
) -> Message:
    return Message("a", receiver, kind, f"message {seq}", correlation_id=about, seq=seq)


async def read(inbox: Inbox, after: int = 0) -> list[int]:
    return [each.seq async for each in inbox.messages(after, 0.01)]


async def test_messages_are_read_once_however_often_they_come() -> None:
    inbox = Inbox()
    for seq in (3, 4, 3, 4, 5):
        inbox.put(message(seq))
    assert await read(inbox) == [3, 4, 5]
    inbox.put(message(4))
    assert await read(inbox) == []
    assert inbox.read_seq == 5


async def test_a_handler_with_a_checkpoint_goes_on_after_it() -> None:
    inbox = Inbox()
    for seq in (3, 4, 5):
        inbox.put(message(seq))
    assert await read(inbox, after=4) == [5]
    assert inbox.read_seq == 5


async def test_a_reader_that_waits_is_woken() -> None:
    inbox = Inbox()
    reading = asyncio.create_task(inbox.next())
    await asyncio.sleep(0)
    inbox.put(message(3))
    assert (await asyncio.wait_for(reading, 5)).seq == 3


async def test_replies_to_requests_are_not_among_the_messages() -> None:
    inbox = Inbox()
    inbox.put(message(3, about="q-1"))
    inbox.put(message(4, about="another"))
    assert await read(inbox) == [4]
    assert (await inbox.within("q-1", 5)).seq == 3
    with pytest.raises(DeadlineExceeded, match=r"^no reply came within 0\.01 s$"):
        await inbox.within("q-2", 0.01)


async def test_the_first_reply_counts() -> None:
    inbox = Inbox()
    inbox.put(message(3, about="q-1"))
    inbox.put(message(4, about="q-1"))
    assert (await inbox.within("q-1", 5)).seq == 3


async def test_messages_of_another_handler_are_kept_apart() -> None:
    inbox = Inbox()
    inbox.keep_apart(frozenset({"type:error"}))
    inbox.put(message(3))
    inbox.put(message(4, receiver="", kind=MessageType.ERROR))
    inbox.put(message(5, receiver=""))
    assert await read(inbox) == [5]
    handled = inbox.handled()
    assert [(await anext(handled)).seq for _ in range(2)] == [3, 4]
