"""Services that answer by rules of a scenario, and note each call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from archon.conformance.values import to_value


@dataclass
class Call:
    """A call of the subject that a scenario answers: messages and at last the end are put on `answers`."""

    method: str
    request: dict[str, Any]
    headers: dict[str, str]
    deadline: float | None
    """Seconds that were left when the call came; None without a deadline."""
    at: float = field(default_factory=time.monotonic)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """All requests, of a call whose requests are a stream."""
    answers: asyncio.Queue[Message | Exception | None] = field(default_factory=asyncio.Queue)
    taken: bool = False
    over: bool = False
    """Whether the subject has ended or cancelled the call."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


def note(method: str, request: Message | None, context: Any) -> Call:
    """Returns a call as it came."""
    headers = {key: text for key, text in context.invocation_metadata() or () if isinstance(text, str)}
    left = context.time_remaining()
    deadline = left if left is not None and left < 1e8 else None
    return Call(method, {} if request is None else to_value(request), headers, deadline)


async def drain(call: Call, fail: Callable[[Exception], Any]) -> AsyncIterator[Message]:
    """Yields the messages of a scenario's answer, until its end. `fail` ends the call with an error."""
    try:
        while (answer := await call.answers.get()) is not None:
            if isinstance(answer, Exception):
                await fail(answer)
                return
            yield answer
    finally:
        call.over = True
        call.changed.set()
