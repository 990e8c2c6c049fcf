"""The state of a mesh: written to `state.json` by its supervisor, read by the commands."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from archon_services.local_mesh.home import Home

Phase = Literal["starting", "ready", "stopping", "failed"]
Condition = Literal["starting", "healthy", "silent", "restarting", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of one process.

    `restarts` counts restarts after exits, not by command; `started` is in seconds since the epoch, 0 if there is no
    process, and `started_awake` the monotonic clock then; `birth` is its `start_ticks`, which distinguish it from a
    later process with the same id; `detail` explains the condition to users; `model` is an agent's; `metrics` is
    host:port of its Prometheus endpoint, if any.
    """

    name: str
    kind: str
    condition: Condition
    pid: int = 0
    address: str = ""
    restarts: int = 0
    started: float = 0.0
    birth: str = ""
    detail: str = ""
    model: str = ""
    metrics: str = ""
    started_awake: float = 0.0

    @property
    def age(self) -> float:
        """Seconds since it was started, whatever the wall clock has become; a suspend of the machine does not count."""
        return max(0.0, time.monotonic() - self.started_awake if self.started_awake else time.time() - self.started)

    @property
    def port(self) -> str:
        """The port of its address; empty while that is unknown."""
        return self.address.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class MeshState:
    """The state of a mesh. `error` is why it failed to start; `notes` tell users about ports other than the default;
    `durable` is False if its runs end with the orchestrator, whose journal is in memory; `traces` and `otlp` are where
    Jaeger answers queries and receives spans (host:port), empty without it; `tls` tells whether connections are
    encrypted."""

    phase: Phase
    pid: int
    home: str
    processes: tuple[ProcessState, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    etcd: str = ""
    registry: str = ""
    durable: bool = True
    traces: str = ""
    otlp: str = ""
    tls: bool = False

    def address(self, name: str) -> str:
        """Returns host:port of a service; empty if this mesh does not run it."""
        return next((process.address for process in self.processes if process.name == name), "")

    @property
    def models(self) -> tuple[str, ...]:
        """The models of its agents, each once."""
        return tuple(sorted({process.model for process in self.processes if process.model}))

    def process(self, name: str) -> ProcessState:
        """Returns the process with this name. Raises KeyError if there is none."""
        for process in self.processes:
            if process.name == name:
                return process
        raise KeyError(name)


def write_state(home: Home, state: MeshState) -> None:
    """Replaces the state file atomically."""
    partial = home.root / f".state.{os.getpid()}"
    partial.write_text(json.dumps(asdict(state), indent=1))
    partial.replace(home.state_file)


def read_state(home: Home) -> MeshState | None:
    """Reads the state file, also of a mesh that is not running; None if there is none or it is invalid."""
    try:
        content = json.loads(home.state_file.read_text())
        processes = tuple(ProcessState(**process) for process in content.pop("processes"))
        return MeshState(**{**content, "processes": processes, "notes": tuple(content["notes"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def live_state(home: Home) -> MeshState | None:
    """As `read_state`; None if the mesh is not running."""
    holder = home.holder()
    state = read_state(home) if holder else None
    return state if state is not None and state.pid == holder else None


def start_ticks(pid: int) -> str:
    """Returns the start time of a process in clock ticks since boot, which distinguishes processes with the same id.

    Empty if there is no such process, if it is a zombie, or if the system is not Linux. See `starttime` in proc(5).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
