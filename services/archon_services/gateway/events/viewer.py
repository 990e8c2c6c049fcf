"""The stream of one viewer of a topic: frames from its position on, heartbeats, and the end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from archon import status
from archon.errors import ArchonError
from archon_services.gateway.events.frames import END, HEARTBEAT, failure_frame, first_frame
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.topic import Fallen, Topic

CHECKED_EVERY: Final = 1.0
"""Seconds between two looks at the credentials of a viewer."""

SILENCE: Final = 15
"""Looks without an event after which a heartbeat is sent."""

BATCH_BYTES: Final = 128 * 1024
"""Frames are sent together up to this size in memory."""

SETTLED_WITHIN: Final = 0.5
"""Seconds in which a watch that fails at once has failed, so that the viewer gets a status instead of a stream."""


async def settled(topic: Topic) -> None:
    """Waits until a topic has an event, has ended, or is likely to be open. Raises the error with which it failed,
    unless the gateway stops."""
    if not topic.last and not topic.over:
        await topic.wait(SETTLED_WITHIN)
    if topic.failure is not None and not topic.stopped:
        raise topic.failure


async def batches_from(
    topic: Topic, position: int, check: Callable[[], None], *, interruptions: int | None = None
) -> AsyncGenerator[Sequence[Frame], None]:
    """Yields the frames of a topic from a position on, and an empty batch in place of a heartbeat; ends with the topic.
    `check` raises if the credentials of the viewer are not valid any more. Raises Fallen if the viewer is too slow, the
    error of `check` or the topic, and the one after which the watch is begun again, if that happens more often than
    `interruptions`; None lets it pass."""
    silent, checked = 0, time.monotonic()
    while True:
        if time.monotonic() - checked >= CHECKED_EVERY:  # also for a viewer that never reads all that is there
            checked = time.monotonic()
            check()
        frames, position = _pending(topic, position)
        if frames:
            silent = 0
            yield frames
            continue
        if topic.over:
            if topic.failure is not None:
                raise topic.failure
            return
        if interruptions is not None and topic.interruptions > interruptions and topic.interruption is not None:
            raise topic.interruption
        await topic.wait(CHECKED_EVERY)
        silent += 1
        if silent >= SILENCE:
            silent = 0
            yield ()


async def frames_from(topic: Topic, position: int, check: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yields the stream of server-sent events of a viewer from a position on, as `batches_from`. Ends without a word if
    the viewer is too slow: it connects again, with the number of its last event."""
    try:
        async with aclosing(batches_from(topic, position, check)) as batches:
            async for frames in batches:
                yield b"".join(frame.data for frame in frames) or HEARTBEAT
    except Fallen:
        return
    except ArchonError as error:
        yield failure_frame(error)
        return
    yield END


def _pending(topic: Topic, position: int) -> tuple[list[Frame], int]:
    frames: list[Frame] = []
    size = 0
    while size < BATCH_BYTES and (frame := topic.frame(position)) is not None:
        frames.append(frame)
        size += frame.size
        position += 1
    return frames, position


async def guarded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Begins a stream, and ends it with an event that says why if it fails."""
    yield first_frame()
    try:
        async for piece in pieces:
            yield piece
    except Exception as raised:  # noqa: BLE001 - whatever it is, the viewer gets a typed error
        yield failure_frame(status.as_error(raised))
