"""The clock of a mesh in the event loop of a test, which the test moves on.

It moves the monotonic clock of the process (`archon_mesh.testing.process_clock`), which services, agents and event
loops read, and the wall time of journals. Timers that come due on the way fire in their order. `time.time`, other
processes, and the deadlines of gRPC calls in progress do not move. `InProcessMesh.advance` moves a whole mesh.

It does not jump from timer to timer, as `archon_mesh.testing.VirtualTime` does: the parts of a mesh wait for each
other at sockets, and the event loop cannot see whether a frame is still on its way. It moves in steps instead, and
awaits answers between them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from archon.errors import FailedPrecondition
from archon_mesh.testing import process_clock, virtual_time
from archon_services.common import machine

STEP: Final = 0.25
"""Seconds by which the clock moves at a time: less than any limit after which a silent peer counts as lost."""


class MovableClock:
    """The clock of this process. It never goes back: it stays ahead when a test has ended, and all instances move the
    same clock. The clock is replaced when this module is imported; FailedPrecondition is raised if another library has
    replaced it before."""

    _ahead: float = 0.0

    @property
    def ahead(self) -> float:
        """The seconds by which it was moved, and the wall time of journals with it. Blocks of VirtualTime, which are
        days long at times, do not move that."""
        return MovableClock._ahead

    async def advance(self, seconds: float, settle: Callable[[], Awaitable[object]]) -> None:
        """Moves the clock on by `seconds`, STEP at a time, and awaits `settle` after each step: it returns when the
        work that came due is done. Raises FailedPrecondition in a block of VirtualTime, which moves the same clock."""
        if virtual_time.is_active():
            raise FailedPrecondition("a mesh is moved outside of VirtualTime: one clock has one owner")
        left = seconds
        while left > 0:
            moved = min(STEP, left)
            process_clock.move_to(process_clock.now() + moved)
            MovableClock._ahead += moved
            left -= moved
            await settle()


def _moved_wall() -> float:
    return time.time() + MovableClock._ahead


process_clock.install()
machine.wall_time = _moved_wall
