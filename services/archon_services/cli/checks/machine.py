"""This machine: the folder of the mesh, its disk, SQLite on it, and the usual ports."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.local_mesh import Home, MeshState
from archon_services.local_mesh.ports import is_free

USUAL_PORTS: Final[Mapping[str, int]] = {"orchestrator": 7100, "registry": 7101, "memory": 7102}
_RETURNING: Final = (3, 35, 0)  # the first SQLite with RETURNING
_ROOM: Final = 1024**3
_LEAST_ROOM: Final = 100 * 1024**2


def check_home(home: Home, free: int | None = None) -> list[Finding]:
    """Whether ARCHON_HOME can be written, and its disk has room: `free` bytes, or as the system says."""
    folder = existing(home.root)
    if not folder.is_dir():
        return [problem("home", f"{folder} is a file, not a folder", "Name another folder by ARCHON_HOME.")]
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return [problem("home", f"{folder} can't be written: {error.strerror}", "Name another folder by ARCHON_HOME.")]
    free = shutil.disk_usage(folder).free if free is None else free
    said = f"{free / 1024**3:,.1f} GiB are free on the disk of {home.root}"
    if free < _LEAST_ROOM:
        return [problem("home", f"only {said}", "Free some: journal and logs can't be written without.")]
    if free < _ROOM:
        return [warning("home", f"only {said}", "Free some, or name a folder on another disk by ARCHON_HOME.")]
    return [ok("home", said)]


def check_sqlite(home: Home, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> list[Finding]:
    """Whether SQLite is new enough, and can keep a write-ahead log on the disk of ARCHON_HOME."""
    name = ".".join(map(str, version))
    if version < _RETURNING:
        hint = "Use a Python that was built with a newer one; those of python.org are."
        return [problem("sqlite", f"SQLite {name} is too old: 3.35 is needed", hint)]
    folder = existing(home.root)
    elsewhere = "Name a folder on a local disk by ARCHON_HOME: network file systems can't keep one."
    try:
        with (
            tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as scratch,
            closing(sqlite3.connect(Path(scratch) / "try.db", timeout=2.0)) as database,
        ):
            (mode,) = database.execute("PRAGMA journal_mode=WAL").fetchone()
            database.execute("CREATE TABLE tried (x)")
            database.execute("INSERT INTO tried VALUES (1) RETURNING x").fetchone()
            database.commit()
    except (OSError, sqlite3.Error) as error:
        return [problem("sqlite", f"SQLite {name} can't write in {folder}: {error}", elsewhere)]
    if mode != "wal":
        return [problem("sqlite", f"SQLite {name} can't keep a write-ahead log in {folder}", elsewhere)]
    return [ok("sqlite", f"SQLite {name}, with a write-ahead log")]


def check_ports(
    state: MeshState | None, named: Collection[str] = (), ports: Mapping[str, int] = USUAL_PORTS
) -> list[Finding]:
    """Whether the usual ports are free, or held by the mesh of this folder (`state`, where one is up), or by the
    services that were named by their addresses."""
    ours, taken = [], []
    for name, port in ports.items():
        addresses = (*named, state.address(name) if state is not None else "")
        if any(address.endswith(f":{port}") for address in addresses):
            ours.append(str(port))
        elif not is_free(port):
            taken.append(f"{port} ({name})")
    if taken:
        verb = "is" if len(taken) == 1 else "are"
        hint = "`archon up` takes other ports by itself; clients of the usual ones find another program there."
        return [warning("ports", f"{', '.join(taken)} {verb} taken by another program, or another mesh", hint)]
    said = f"{', '.join(str(port) for port in ports.values())} are free"
    if ours:
        others = ", the others free" if len(ours) < len(ports) else ""
        said = f"{', '.join(ours)} held by the mesh that is asked here{others}"
    return [ok("ports", said)]


def existing(path: Path) -> Path:
    """The path, else the nearest of its parents that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
