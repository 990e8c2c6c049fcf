"""The wall clock of this machine: jumps, and differences from the orchestrator's clock."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, warning
from archon_services.local_mesh import MeshState, ProcessState
from archon_services.local_mesh.state import start_ticks

_TOLERANCE: Final = 5.0
_RECENT: Final = 5
_NTP_HINT: Final = "Synchronise it by NTP. No data is lost, but times and durations of runs are wrong."


def check_jump(state: MeshState | None) -> list[Finding]:
    """Checks whether the wall clock was set since the mesh started, by comparing it with the system's uptime.

    Returns nothing if no mesh is running or if the system does not tell when its processes started.
    """
    jumps = [jump(process) for process in (state.processes if state is not None else ())]
    measured = [seconds for seconds in jumps if seconds is not None]
    if not measured:
        return []
    largest = max(measured, key=abs)
    if abs(largest) > _TOLERANCE:
        return [warning("clock", f"the clock has jumped by {largest:+,.0f} s since the mesh started", _NTP_HINT)]
    slept = max((suspended(process) for process in (state.processes if state is not None else ())), default=0.0)
    if slept > _TOLERANCE:
        message = f"the machine was suspended for {slept:,.0f} s since the mesh started, which no limit of time counts"
        return [ok("clock", message)]
    return [ok("clock", "no jump since the mesh started")]


def jump(process: ProcessState) -> float | None:
    """Returns by how many seconds the wall clock was set since the process started; None if that is unknown."""
    if sys.platform != "linux" or not process.started or not process.birth:
        return None
    if start_ticks(process.pid) != process.birth or not process.birth.strip("0"):
        return None
    return (time.time() - _age(process)) - process.started


def suspended(process: ProcessState) -> float:
    """Returns for how many seconds the machine was suspended since the process started; 0 if that is unknown."""
    if jump(process) is None or not process.started_awake:
        return 0.0
    return _age(process) - (time.monotonic() - process.started_awake)


def _age(process: ProcessState) -> float:
    """Seconds since the process started, those in which the machine was suspended included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(process.birth) / os.sysconf("SC_CLK_TCK")


async def check_events(orchestrator: str, now: float | None = None) -> list[Finding]:
    """Checks whether times of the newest runs are in the future.

    Returns nothing if the orchestrator is unreachable, which another check reports.
    """
    from archon.client import Client
    from archon.errors import ArchonError

    if not orchestrator:
        return []
    try:
        async with Client(orchestrator) as client:
            runs = await client.list_runs(limit=_RECENT)
    except ArchonError:
        return []
    now = time.time() if now is None else now
    latest = max((max(run.create_time, run.end_time) for run in runs), default=0.0)
    if latest - now > _TOLERANCE:
        message = f"the newest run is {latest - now:,.0f} s in the future"
        hint = f"The orchestrator's clock is ahead of this machine's, or was set back. {_NTP_HINT}"
        return [warning("clock", message, hint)]
    return []
