"""The clock of a run that is run again from the file: it stands at the recorded time of the event that is played."""

from __future__ import annotations

from collections.abc import Callable

from archon_mesh.engine import RunState
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.ports import SystemClock, TimerHandle
from archon_services.orchestrator.runs.clock.clocks import JournalClock


class ScriptedRunClock(SystemClock):
    """The clock of one run, which `move_to` moves. Timers that are due fire when `ring` is called, and not before; the
    decisions that are due are made only if `ticks` is set."""

    ticks = False

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self._now = start
        self._timers: list[_Timer] = []

    def now(self) -> float:
        return self._now

    def call_at(self, at: float, call: Callable[[], None]) -> TimerHandle:
        timer = _Timer(self._timers, at, call)
        self._timers.append(timer)
        return timer

    def move_to(self, time: float) -> None:
        """Moves the clock on to `time` (wall seconds), never back."""
        self._now = max(self._now, time)

    def ring(self) -> None:
        """Fires the timers that are due."""
        for timer in [timer for timer in self._timers if timer.at <= self._now]:
            timer.cancel()
            timer.call()


class ScriptedClock(JournalClock):
    """The clock of a journal whose one run has the clock `run`."""

    def __init__(self, journal: Journal, run: ScriptedRunClock) -> None:
        super().__init__(journal, boot="")
        self._run = run

    def now(self) -> float:
        return self._run.now()

    def steady(self) -> Callable[[], float]:
        return self._run.now

    async def continued(self, run: RunState) -> SystemClock:
        return self._run


class _Timer:
    """A call of a timer that stands in a list until it has fired or is cancelled."""

    def __init__(self, timers: list[_Timer], at: float, call: Callable[[], None]) -> None:
        self.at, self.call = at, call
        self._timers = timers

    def cancel(self) -> None:
        """Removes the timer from the clock. Idempotent."""
        if self in self._timers:
            self._timers.remove(self)
