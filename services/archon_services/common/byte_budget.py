"""A number of bytes that many may hold together."""

from __future__ import annotations

import asyncio


class ByteBudget:
    """`used` are the held bytes, at most `limit` if all that is taken fits in it. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: set[asyncio.Event] = set()

    def fits(self, size: int) -> bool:
        """Whether so many bytes more are within the limit."""
        return self.used + size <= self.limit

    def take(self, size: int) -> None:
        """Holds bytes, whether they fit or not."""
        self.used += size

    def give(self, size: int) -> None:
        """Ends holding bytes, so that others that wait for room may take them."""
        self.used -= size
        if self._waiting:
            for event in self._waiting:
                event.set()

    async def wait(self, size: int, seconds: float) -> bool:
        """Holds bytes as soon as they fit; returns False if they do not within so many seconds."""
        if self.fits(size):
            self.take(size)
            return True
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(seconds):
                while not self.fits(size):
                    event.clear()
                    await event.wait()
            self.take(size)
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(event)
        return True
