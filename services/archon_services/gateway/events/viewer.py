"""The stream of one viewer of a topic: frames from its position on, heartbeats, and the end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from archon import status
from archon.errors import ArchonError
from archon_services.gateway.events.frames import END, HEARTBEAT, failure_frame, first_frame
from archon_services.gateway.events.topic import Fallen, Topic

CHECKED_EVERY: Final = 1.0
"""Seconds between two looks at the credentials of a viewer."""

SILENCE: Final = 15
"""Looks without an event after which a heartbeat is sent."""

BATCH_BYTES: Final = 64 * 1024
"""Frames are sent together up to this size."""

SETTLED_WITHIN: Final = 0.5
"""Seconds in which a watch that fails at once has failed, so that the viewer gets a status instead of a stream."""


async def settled(topic: Topic) -> None:
    """Waits until a topic has an event, has ended, or is likely to be open. Raises the error with which it failed,
    unless the gateway stops."""
    if not topic.last and not topic.over:
        await topic.wait(SETTLED_WITHIN)
    if topic.failure is not None and not topic.stopped:
        raise topic.failure


async def frames_from(topic: Topic, position: int, check: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yields the stream of a viewer from a position on. `check` raises if its credentials are not valid any more. Ends
    without a word if the viewer is too slow: it connects again, with the number of its last event."""
    silent, checked = 0, time.monotonic()
    while True:
        if time.monotonic() - checked >= CHECKED_EVERY:  # also for a viewer that never reads all that is there
            checked = time.monotonic()
            try:
                check()
            except ArchonError as error:
                yield failure_frame(error)
                return
        try:
            pieces, position = _pending(topic, position)
        except Fallen:
            return
        if pieces:
            silent = 0
            yield b"".join(pieces)
            continue
        if topic.over:
            yield END if topic.failure is None else failure_frame(topic.failure)
            return
        await topic.wait(CHECKED_EVERY)
        silent += 1
        if silent >= SILENCE:
            silent = 0
            yield HEARTBEAT


def _pending(topic: Topic, position: int) -> tuple[list[bytes], int]:
    pieces: list[bytes] = []
    size = 0
    while size < BATCH_BYTES and (frame := topic.frame(position)) is not None:
        pieces.append(frame.data)
        size += len(frame.data)
        position += 1
    return pieces, position


async def guarded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Begins a stream, and ends it with an event that says why if it fails."""
    yield first_frame()
    try:
        async for piece in pieces:
            yield piece
    except Exception as raised:  # noqa: BLE001 - whatever it is, the viewer gets a typed error
        yield failure_frame(status.as_error(raised))
