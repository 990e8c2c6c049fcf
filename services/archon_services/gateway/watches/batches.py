"""The frames of a topic as one viewer reads them: in batches from its position on, until the topic ends."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.topic import Topic

CHECKED_EVERY: Final = 1.0
"""Seconds between two looks at the credentials of a viewer."""

SILENCE: Final = 15
"""Looks without an event after which a heartbeat is sent."""

BATCH_BYTES: Final = 128 * 1024
"""Frames are sent together up to this size in memory."""

SETTLED_WITHIN: Final = 0.5
"""Seconds in which a watch that fails at once has failed, so that the viewer gets a status instead of a stream."""

REACHED_WITHIN: Final = 2.0
"""Seconds in which a new watch reads the events that a viewer has seen already. After them the orchestrator says
whether the run has so many."""


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


def _pending(topic: Topic, position: int) -> tuple[list[Frame], int]:
    frames: list[Frame] = []
    size = 0
    while size < BATCH_BYTES and (frame := topic.frame(position)) is not None:
        frames.append(frame)
        size += frame.size
        position += 1
    return frames, position
