"""States of meshes for the tests of the checks."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from archon_services.local_mesh import MeshState, ProcessState
from archon_services.local_mesh.state import start_ticks


def mesh_of(*processes: ProcessState, home: Path = Path("/nowhere")) -> MeshState:
    """Returns a ready mesh of these processes, supervised by this process."""
    return MeshState("ready", os.getpid(), str(home), processes)


def this_process(**changed: object) -> ProcessState:
    """Returns the state of a process that is running, because it is this one."""
    pid = os.getpid()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(start_ticks(pid)) / os.sysconf("SC_CLK_TCK")
    process = ProcessState("memory", "service", "healthy", pid, "127.0.0.1:1", 0, time.time() - age, start_ticks(pid))
    return replace(process, **changed)  # type: ignore[arg-type]
