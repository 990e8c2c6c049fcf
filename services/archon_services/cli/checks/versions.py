"""Versions of the running processes, compared with the installation that this command belongs to."""

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
from archon_services.local_mesh.state import start_ticks

_PACKAGES: Final = ("archon", "archon_mesh", "archon_services")
_RESTART_HINT: Final = "Run `archon down`, then `archon up`; data is kept."
_PRINT_VERSION: Final = f"from importlib.metadata import version; print(version({DISTRIBUTION!r}))"


def check_versions(state: MeshState | None, changed: float | None = None) -> list[Finding]:
    """Checks that all processes run the installed code and started after `changed`, its last modification."""
    if state is None:
        return []
    installed = _installed_version()
    versions: dict[str, str] = {}
    changed = last_change(_package_folders()) if changed is None else changed
    outdated, foreign = [], []
    for process in state.processes:
        if process.kind == "etcd" or not process.pid:
            continue
        python = interpreter(process)
        if python and python != sys.executable:
            other = versions.setdefault(python, _version_in(python))
            if other != installed:
                foreign.append(f"{process.name} ({other})")
                continue
        if process.started < changed:
            outdated.append(process.name)
    findings = []
    if foreign:
        message = f"{', '.join(foreign)} {_run(foreign)} from another installation than this one ({installed})"
        findings.append(warning("versions", message, _RESTART_HINT))
    if outdated:
        message = f"{', '.join(outdated)} {_run(outdated)} code that has been changed since"
        findings.append(warning("versions", message, _RESTART_HINT))
    return findings or [ok("versions", f"all processes run this installation ({installed})")]


def interpreter(process: ProcessState) -> str:
    """Returns the path of the Python that runs a process; empty if the process has ended or it is unknown."""
    try:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return command[0].decode(errors="replace") if start_ticks(process.pid) == process.birth else ""


def last_change(
    folders: Iterable[Path], modified: Callable[[Path], float] = lambda path: path.stat().st_mtime
) -> float:
    """Returns the newest modification time of Python files below `folders`, in seconds since the epoch; 0 if none."""
    return max((modified(path) for folder in folders for path in folder.rglob("*.py")), default=0.0)


def _package_folders() -> Iterator[Path]:
    for name in _PACKAGES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(folder)


def _installed_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"


def _version_in(python: str) -> str:
    try:
        process = subprocess.run([python, "-I", "-c", _PRINT_VERSION], capture_output=True, text=True, timeout=10.0)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return process.stdout.strip() or "unknown"


def _run(names: list[str]) -> str:
    return "runs" if len(names) == 1 else "run"
