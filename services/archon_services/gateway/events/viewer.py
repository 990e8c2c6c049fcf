"""The stream of one viewer of a topic as server-sent events: frames, heartbeats, and the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from archon import status
from archon.errors import ArchonError
from archon_services.gateway.events.frames import END, HEARTBEAT, failure_frame, first_frame
from archon_services.gateway.watches.batches import batches_from
from archon_services.gateway.watches.topic import Fallen, Topic


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


async def guarded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Begins a stream, and ends it with an event that says why if it fails."""
    yield first_frame()
    try:
        async for piece in pieces:
            yield piece
    except Exception as raised:  # noqa: BLE001 - whatever it is, the viewer gets a typed error
        yield failure_frame(status.as_error(raised))
