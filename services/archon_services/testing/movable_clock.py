"""A clock that a test moves on, for services and agents in its event loop.

It replaces `time.monotonic`, which event loops and all parts of Archon read, and the wall time of journals, by clocks
that can be ahead. Timers that come due on the way fire in their order. `time.time`, other processes, and the deadlines
of gRPC calls in progress do not move. `InProcessMesh.advance` moves a whole mesh.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from archon_services.common import machine

_real: Final = time.monotonic

STEP: Final = 0.25
"""Seconds by which the clock moves at a time: less than any limit after which a silent peer counts as lost."""


class MovableClock:
    """The monotonic clock of this process. It never goes back: it stays ahead when a test has ended, and all instances
    move the same clock. The clock is replaced when this module is imported: import it before modules that keep a
    reference to `time.monotonic`, for example as a default."""

    _ahead: float = 0.0

    @property
    def ahead(self) -> float:
        """The seconds by which the clock is ahead of the machine's."""
        return MovableClock._ahead

    async def advance(self, seconds: float, settle: Callable[[], Awaitable[object]]) -> None:
        """Moves the clock on by `seconds`, STEP at a time, and awaits `settle` after each step: it returns when the
        work that came due is done."""
        left = seconds
        while left > 0:
            moved = min(STEP, left)
            MovableClock._ahead += moved
            left -= moved
            await settle()


def _moved() -> float:
    return _real() + MovableClock._ahead


def _moved_wall() -> float:
    return time.time() + MovableClock._ahead


time.monotonic = _moved
machine.wall_time = _moved_wall
