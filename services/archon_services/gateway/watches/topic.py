"""One watch of a service of the mesh, and the recent events of it for all viewers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

from archon import status
from archon.background import BackgroundLoop
from archon.errors import Aborted, ArchonError, TokenExpired, Unavailable
from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.watches.frame import Frame

MAX_FRAMES: Final = 5_000
MAX_BYTES: Final = 4 * 1024 * 1024
"""Events of one topic that are kept for viewers."""

MIN_BYTES: Final = 64 * 1024
"""Bytes that a topic may keep if all topics together have reached their limit."""

RETRIED: Final = (Unavailable, Aborted, TokenExpired)
"""Errors after which the watch is begun again, after the last event."""

Open = Callable[[int], AsyncIterator[Frame | None]]
"""Watches from after a number on; yields None while the watch is open and nothing happens, and ends when no further
event comes."""


class Fallen(Exception):
    """A viewer was slower than the events that are kept, or comes for earlier ones."""


class Topic:
    """Reads `open_watch` from its beginning, and keeps recent frames. `budget` has the bytes of all topics.

    Each viewer has a position in the frames of its own, so that a slow one holds up no other, and is held in memory by
    nothing but that number.
    """

    def __init__(self, name: str, open_watch: Open, budget: ByteBudget) -> None:
        self._open, self._budget = open_watch, budget
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._dropped = 0
        self._last_dropped = 0
        self._wake = asyncio.Event()
        self._loop = BackgroundLoop(name, self._read, backoff_max=2.0, expected=RETRIED)
        self.last = 0
        """The highest number of an event so far."""
        self.ended = False
        """Whether no further event comes."""
        self.failure: ArchonError | None = None
        """Why no further event comes, unless the watch has ended as it should."""
        self.interruptions = 0
        """How often the watch was begun again."""
        self.interruption: ArchonError | None = None
        """Why it was, the last time."""
        self.interrupted_at: float | None = None
        """Since when the watch is interrupted, in seconds of the monotonic clock; None while it is open."""
        self.stopped = False
        """Whether no further event comes because the gateway stops: a viewer goes on elsewhere."""

    def start(self) -> None:
        """Starts the loop that reads the watch. Call it once."""
        self._loop.start()

    async def close(self) -> None:
        """Ends the loop, and gives the bytes of the kept events back to the budget. Idempotent."""
        await self._loop.close()
        self._budget.give(self._bytes)
        self._bytes = 0
        self._frames.clear()

    def end(self, failure: ArchonError | None = None) -> None:
        """Ends the topic for its viewers; the first end counts."""
        if not self.over:
            self.ended, self.failure = failure is None, failure
            self._notify()

    def stop(self) -> None:
        """Ends the topic because the gateway stops."""
        if not self.over:
            self.stopped = True
            self.end(Unavailable("the HTTP gateway is stopping", retry_delay=1.0))

    @property
    def over(self) -> bool:
        """Whether no further event comes, for whatever reason."""
        return self.ended or self.failure is not None

    def position_after(self, number: int) -> int:
        """Returns the position of the first frame after a number. Raises Fallen if frames between are not kept."""
        if number < self._last_dropped:
            raise Fallen
        for offset, frame in enumerate(self._frames):
            if frame.number > number:
                return self._dropped + offset
        return self.end_position

    def has_after(self, number: int) -> bool:
        """Returns whether the watch has come to a number, and every frame after it is kept or will come."""
        return self._last_dropped <= number <= self.last

    @property
    def end_position(self) -> int:
        """The position of the frame that comes next."""
        return self._dropped + len(self._frames)

    def frame(self, position: int) -> Frame | None:
        """Returns the frame at a position; None if it has not come yet. Raises Fallen if it is not kept any more."""
        if position < self._dropped:
            raise Fallen
        offset = position - self._dropped
        return self._frames[offset] if offset < len(self._frames) else None

    async def wait(self, seconds: float) -> None:
        """Waits for a change: a frame, or the end. Returns after `seconds` in any case."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def reach(self, number: int, seconds: float) -> None:
        """Waits until the topic has an event of this number, or has ended; at most for `seconds`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.last < number and not self.over and (left := until - loop.time()) > 0:
            await self.wait(left)

    async def _read(self) -> None:
        try:
            async with aclosing(self._open(self.last)) as frames:  # type: ignore[type-var]
                async for frame in frames:
                    self._loop.report_progress()
                    self.interrupted_at = None
                    if frame is not None:
                        self._keep(frame)
            self.end()
        except RETRIED as interruption:
            self.interruptions, self.interruption = self.interruptions + 1, interruption
            self.interrupted_at = self.interrupted_at or time.monotonic()
            self._notify()
            raise
        except Exception as raised:  # noqa: BLE001 - the viewers get it
            self.end(status.as_error(raised))

    def _keep(self, frame: Frame) -> None:
        self.last = max(self.last, frame.number)
        self._frames.append(frame)
        self._bytes += frame.size
        self._budget.take(frame.size)
        limit = MAX_BYTES if self._budget.fits(0) else MIN_BYTES
        while len(self._frames) > 1 and (len(self._frames) > MAX_FRAMES or self._bytes > limit):
            dropped = self._frames.popleft()
            self._dropped += 1
            self._last_dropped = max(self._last_dropped, dropped.number)
            self._bytes -= dropped.size
            self._budget.give(dropped.size)
        self._notify()

    def _notify(self) -> None:
        wake, self._wake = self._wake, asyncio.Event()
        wake.set()
