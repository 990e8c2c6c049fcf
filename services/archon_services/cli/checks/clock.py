"""The clock of this machine: has it jumped, and does it agree with what the orchestrator has written."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, warning
from archon_services.local_mesh import MeshState, ProcessState
from archon_services.local_mesh.state import birth_of

_TOLERANCE: Final = 5.0
_RECENT: Final = 5
_NTP: Final = "Let NTP keep it. Nothing is lost by it, but times and durations of runs are wrong where it jumped."


def check_jump(state: MeshState | None) -> list[Finding]:
    """Whether the wall clock was set since the mesh started: the system also counts the seconds since, and that count
    is never set. Nothing where no mesh is up, or the system doesn't say."""
    jumps = [jump(one) for one in (state.processes if state is not None else ())]
    seen = [one for one in jumps if one is not None]
    if not seen:
        return []
    largest = max(seen, key=abs)
    if abs(largest) > _TOLERANCE:
        return [warning("clock", f"the clock has jumped by {largest:+,.0f} s since the mesh was started", _NTP)]
    return [ok("clock", "it hasn't jumped since the mesh was started")]


def jump(process: ProcessState) -> float | None:
    """By how many seconds the wall clock was set since this process began; None where that can't be told."""
    if sys.platform != "linux" or not process.started or not process.birth:
        return None
    if birth_of(process.pid) != process.birth or not process.birth.strip("0"):
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(process.birth) / os.sysconf("SC_CLK_TCK")
    return (time.time() - age) - process.started


async def check_events(orchestrator: str, now: float | None = None) -> list[Finding]:
    """Whether the orchestrator's newest runs are from the future. Nothing where it can't be asked, which another check
    tells."""
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
    latest = max((max(run.create_time.ToSeconds(), run.end_time.ToSeconds()) for run in runs), default=0)
    if latest - now > _TOLERANCE:
        said = f"the newest run is {latest - now:,.0f} s in this machine's future"
        return [warning("clock", said, f"The orchestrator's clock is ahead of this one's, or was set back. {_NTP}")]
    return []
