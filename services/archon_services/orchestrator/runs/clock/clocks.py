"""Clocks of the orchestrator: the journal's, which every new run starts with, and the clock of each run.

A run's clock never goes back and never jumps while a process drives the run: it is wall time as of the run's start,
carried on by the monotonic clock. Its deadlines, retries and delays are times of this clock. A process that takes the
run over continues the clock where it is:

- in the same boot of the machine, exactly, since both processes read the same monotonic clock;
- otherwise by a wall clock, as the time since the run's last event. No such time is below 0, so that after a wall clock
  was set back a wait is at most as long, from the takeover on, as it was meant to be in all.

A wall clock that was set forward while no process drove the run cannot be told from a long time without one, except
by a replica that has seen the jump: it counts the shortest time that the clock before and after allows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from archon.background import BackgroundLoop
from archon_mesh.engine import RunState
from archon_mesh.engine.types import NO_ORIGIN, ClockOrigin, quantize
from archon_services.common import machine
from archon_services.orchestrator.ports import SystemClock

JUMP: Final = 1.0
"""Seconds by which a wall clock and the monotonic clock must differ for a jump."""

MAX_JUMPS: Final = 16
"""The jumps that are remembered."""

READ_INTERVAL: Final = 5.0
"""The pause between two reads of a server's clock."""


class WallSource(Protocol):
    """The part of a journal that knows the wall time. `shared`: whether it is the time of a server, not the
    machine's."""

    shared: bool

    async def now(self) -> float: ...


class JournalClock:
    """The wall clock of a journal, which follows each change of it: the machine's clock at once, a server's clock with
    each `read`, between which the monotonic clock carries it on."""

    def __init__(self, journal: WallSource, *, boot: str | None = None) -> None:
        """`boot` is the id of the machine's boot, empty if it is unknown; None: the system's."""
        self._journal = journal
        self._boot = machine.boot_id() if boot is None else boot
        self._clocks = [SystemClock(machine.wall_time())]
        """The clock as it has been since this process started, the newest last: one more with each jump."""

        self._read_at: float | None = None
        self._loop = BackgroundLoop("journal clock", self._keep_reading, backoff_max=READ_INTERVAL)

    def start(self) -> None:
        """Reads the clock of a server every few seconds until `close`."""
        if self._journal.shared:
            self._loop.start()

    async def close(self) -> None:
        """Ends the loop that reads the journal's clock. Idempotent."""
        await self._loop.close()

    async def read(self) -> None:
        """Reads the journal's clock. Raises the errors of the journal."""
        wall = await self._journal.now()
        if self._read_at is None:
            self._clocks.clear()  # the machine's, which may differ from the server's
        self._read_at = time.monotonic()
        if self._clocks and abs(wall - self._clocks[-1].now()) < JUMP:
            self._clocks[-1] = SystemClock(wall)
        else:
            self._jumped(wall)

    def now(self) -> float:
        """Returns wall seconds in whole microseconds."""
        if self._journal.shared:
            return self._clocks[-1].now()
        wall = machine.wall_time()
        if abs(wall - self._clocks[-1].now()) >= JUMP:
            self._jumped(wall)
        return quantize(wall)

    def monotonic(self) -> float:
        """Returns a time that never goes back."""
        return time.monotonic()

    def steady(self) -> Callable[[], float]:
        """Returns a clock in wall seconds that follows no jump from now on."""
        return SystemClock(self.now()).now

    async def continued(self, run: RunState) -> SystemClock:
        """Returns the clock of a run that was loaded from the journal. Raises the errors of the journal."""
        if self._boot and run.origin.boot_id == self._boot:
            return SystemClock(max(run.latest_time, run.origin.time + time.monotonic()))
        if self._read_at is None or time.monotonic() - self._read_at >= JUMP:
            await self.read()
        elapsed = [clock.now() - run.latest_time for clock in self._clocks]
        return SystemClock(run.latest_time + min((seconds for seconds in elapsed if seconds >= 0), default=0.0))

    def origin_of(self, clock: SystemClock) -> ClockOrigin:
        """Returns the origin by which a later process of this boot continues the clock of a run."""
        return ClockOrigin(self._boot, clock.origin) if self._boot else NO_ORIGIN

    def _jumped(self, wall: float) -> None:
        self._clocks = [*self._clocks[1 - MAX_JUMPS :], SystemClock(wall)]

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.sleep(READ_INTERVAL)
            await self.read()
            self._loop.report_progress()
