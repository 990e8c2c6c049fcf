"""Whether what runs is the Archon that is installed here: the same installation, and no older than its code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, warning
from archon_services.cli.checks.packages import DISTRIBUTION
from archon_services.local_mesh import MeshState, ProcessState
from archon_services.local_mesh.state import birth_of

_PACKAGES: Final = ("archon", "archon_mesh", "archon_services")
_AGAIN: Final = "`archon down`, then `archon up`: data stays."
_ASK: Final = f"from importlib.metadata import version; print(version({DISTRIBUTION!r}))"


def check_versions(state: MeshState | None, changed: float | None = None) -> list[Finding]:
    """The processes of the mesh of this folder. `changed`: when the installed code was changed last."""
    if state is None:
        return []
    here = _installed()
    others: dict[str, str] = {}
    changed = newest(_folders()) if changed is None else changed
    old, foreign = [], []
    for process in state.processes:
        if process.kind == "etcd" or not process.pid:
            continue
        python = interpreter(process)
        if python and python != sys.executable:
            theirs = others.setdefault(python, _version_of(python))
            if theirs != here:
                foreign.append(f"{process.name} ({theirs})")
                continue
        if process.started < changed:
            old.append(process.name)
    found = []
    if foreign:
        said = f"{', '.join(foreign)} {_runs(foreign)} from another installation than this one ({here})"
        found.append(warning("versions", said, _AGAIN))
    if old:
        said = f"{', '.join(old)} {_runs(old)} code from before the last change of this installation"
        found.append(warning("versions", said, _AGAIN))
    return found or [ok("versions", f"everything that runs here is of this installation ({here})")]


def interpreter(process: ProcessState) -> str:
    """The Python that a process was started with; empty where the system doesn't say, or it is another process."""
    try:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return command[0].decode(errors="replace") if birth_of(process.pid) == process.birth else ""


def newest(folders: Iterable[Path], when: Callable[[Path], float] = lambda path: path.stat().st_mtime) -> float:
    """When code below these folders was changed last, in wall seconds; 0 without any."""
    return max((when(path) for folder in folders for path in folder.rglob("*.py")), default=0.0)


def _folders() -> Iterator[Path]:
    for name in _PACKAGES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(folder)


def _installed() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


def _version_of(python: str) -> str:
    try:
        done = subprocess.run([python, "-I", "-c", _ASK], capture_output=True, text=True, timeout=10.0)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _runs(names: list[str]) -> str:
    return "runs" if len(names) == 1 else "run"
