"""What runs, as the supervisor writes it to `state.json` and everybody else reads it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from archon_services.local_mesh.home import Home

Phase = Literal["starting", "ready", "stopping", "failed"]
Condition = Literal["starting", "healthy", "silent", "restarting", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process. `started` is in wall seconds, 0 while there is no process; `birth` tells the process apart from a
    later one with the same id; `detail` says more about the state, for people."""

    name: str
    kind: str
    condition: Condition
    pid: int = 0
    address: str = ""
    restarts: int = 0
    started: float = 0.0
    birth: str = ""
    detail: str = ""

    @property
    def port(self) -> str:
        """Of its address; empty where that isn't known yet."""
        return self.address.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class MeshState:
    """A mesh. `error` says why it failed; `notes` what a person should know, such as another port than usual."""

    phase: Phase
    pid: int
    home: str
    processes: tuple[ProcessState, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    etcd: str = ""
    registry: str = ""

    def address(self, name: str) -> str:
        """host:port of a service, empty where it doesn't run here."""
        return next((one.address for one in self.processes if one.name == name), "")

    def process(self, name: str) -> ProcessState:
        """One process by its name. Raises KeyError."""
        for one in self.processes:
            if one.name == name:
                return one
        raise KeyError(name)


def write_state(home: Home, state: MeshState) -> None:
    """In one step, so that nobody reads half of it."""
    partial = home.root / f".state.{os.getpid()}"
    partial.write_text(json.dumps(asdict(state), indent=1))
    partial.replace(home.state_file)


def read_state(home: Home) -> MeshState | None:
    """What was written last; None where nothing readable was. Whether it still runs is the lock's to say."""
    try:
        content = json.loads(home.state_file.read_text())
        processes = tuple(ProcessState(**one) for one in content.pop("processes"))
        return MeshState(**{**content, "processes": processes, "notes": tuple(content["notes"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def live_state(home: Home) -> MeshState | None:
    """As `read_state`, but only while the mesh is up."""
    holder = home.holder()
    state = read_state(home) if holder else None
    return state if state is not None and state.pid == holder else None


def birth_of(pid: int) -> str:
    """What tells this process from a later one with the same id; empty where there is no such process, or where the
    system doesn't say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
