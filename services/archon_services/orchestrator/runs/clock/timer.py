"""The timer of a run: wakes it when something is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from archon_mesh.engine import Effect, Place, Timer
from archon_services.orchestrator.ports import RunClock, TimerHandle


class RunTimer:
    """One timer for the earliest of a run's deadlines. `at` is in wall seconds, 0 if none is set."""

    __slots__ = ("_clock", "_handle", "_ring", "at")

    def __init__(self, clock: RunClock, ring: Callable[[], None]) -> None:
        self.at = 0.0
        self._clock = clock
        self._ring = ring
        self._handle: TimerHandle | None = None

    def set(self, effects: Iterable[Effect], decided_at: float) -> None:
        """Sets the timer for these effects, in place of the one set before. An effect that was not due at `decided_at`
        (wall seconds), when the step was decided, may be due by now."""
        times = [effect.at for effect in effects if isinstance(effect, Timer)]
        times += [
            effect.not_before for effect in effects if isinstance(effect, Place) and effect.not_before > decided_at
        ]
        self._set(min(times, default=0.0))

    def is_due(self, now: float) -> bool:
        """Whether it rings by `now` (wall seconds)."""
        return bool(self.at) and now >= self.at

    @property
    def ticks(self) -> bool:
        """Whether the decisions that are due are made now."""
        return self._clock.ticks

    def advance(self, at: float) -> None:
        """Rings no later than `at` (wall seconds)."""
        if not self.at or at < self.at:
            self._set(at)

    def cancel(self) -> None:
        """Cancels the call that is due. Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self, at: float) -> None:
        if at == self.at and self._handle is not None:
            return
        self.cancel()
        self.at = at
        if at:
            self._handle = self._clock.call_at(at, self._rang)

    def _rang(self) -> None:
        self._handle = None
        self._ring()
