"""Calls per minute of an engine, in which calls wait for their turn."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

from archon.call_window import MINUTE, CallWindow
from archon.errors import InvalidArgument, ResourceExhausted
from archon_mesh.tools.tool import MAX_RATE

MAX_WAITING: Final = 100
"""Calls that wait for the quota of an engine."""


class EngineQuota:
    """Calls per minute of all tools. Calls wait in order, calls of critical tools before all others."""

    def __init__(
        self, rate: int, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """Raises InvalidArgument if the rate is out of range."""
        if not 1 <= rate <= MAX_RATE:
            raise InvalidArgument(f"the quota must be 1 to {MAX_RATE:,} calls per minute")
        self._window = CallWindow(rate, clock)
        self._sleep = sleep
        self._waiting: list[tuple[bool, int]] = []
        """Calls in the order in which they are served: not critical, number."""
        self._numbers = count()

    async def take(self, *, critical: bool, seconds: float) -> None:
        """Returns when the call may start. Raises ResourceExhausted if that takes longer than `seconds`, or if too many
        calls wait."""
        if not self._waiting and self._window.take():
            return
        if len(self._waiting) >= MAX_WAITING:
            raise self._refusal(f"{MAX_WAITING} calls wait for the quota")
        place = (not critical, next(self._numbers))
        insort(self._waiting, place)
        try:
            async with asyncio.timeout(seconds if seconds < MINUTE * MAX_WAITING else None):
                while self._waiting[0] != place or not self._window.take():
                    await self._sleep(self._window.delay)
        except TimeoutError:
            raise self._refusal(f"no turn within {seconds:g} s") from None
        finally:
            self._waiting.remove(place)

    def _refusal(self, why: str) -> ResourceExhausted:
        message = f"the quota of {self._window.rate} calls per minute is used up: {why}"
        return ResourceExhausted(message, retry_delay=max(1.0, self._window.delay))
