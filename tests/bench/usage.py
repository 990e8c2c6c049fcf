"""CPU time and voluntary context switches of a process, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Returns user and system seconds of a process, in steps of a clock tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def wake_ups(pid: int) -> int:
    """Returns how often the main thread of a process has waited (voluntary context switches)."""
    for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    return 0
