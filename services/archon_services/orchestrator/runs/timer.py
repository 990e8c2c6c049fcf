"""Wakes a run when something of it is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from archon_mesh.core.run import Effect, Place, Timer
from archon_services.orchestrator.ports import Clock


class RunTimer:
    """One timer, for the earliest of what is open. `at` in wall seconds; 0: nothing is due."""

    def __init__(self, clock: Clock, rings: Callable[[], None]) -> None:
        self.at = 0.0
        self._clock = clock
        self._rings = rings
        self._timer: asyncio.TimerHandle | None = None

    def set(self, effects: set[Effect], looked_at: float) -> None:
        """For what is open now. What wasn't due when the step was decided, at `looked_at` (wall seconds), may be due by
        now: a journal may be slow."""
        now = self._clock.now()
        times = [e.at for e in effects if isinstance(e, Timer)]
        times += [e.not_before for e in effects if isinstance(e, Place) and e.not_before > looked_at]
        at = min(times, default=0.0)
        if at == self.at and self._timer is not None and not self._timer.cancelled():
            return
        self.call_off()
        self.at = at
        if at:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, at - now) + 0.001, self._ring)

    def call_off(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._rings()
