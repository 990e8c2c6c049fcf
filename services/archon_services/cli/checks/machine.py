"""This machine: the folder ARCHON_HOME, its disk, SQLite on that disk, and the default ports."""

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
from archon_services.local_mesh.ports import DEFAULT_PORTS, is_free_here

_FIRST_WITH_RETURNING: Final = (3, 35, 0)
_LOW_SPACE: Final = 1024**3
_TOO_LITTLE_SPACE: Final = 100 * 1024**2
_OTHER_HOME_HINT: Final = "Set ARCHON_HOME to another folder."


def check_home(home: Home, free: int | None = None) -> list[Finding]:
    """Checks that ARCHON_HOME is writable and its disk has space; `free` bytes instead of the actual ones."""
    folder = existing(home.root)
    if not folder.is_dir():
        return [problem("home", f"{folder} is a file, not a folder", _OTHER_HOME_HINT)]
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return [problem("home", f"cannot write to {folder}: {error.strerror}", _OTHER_HOME_HINT)]
    free = shutil.disk_usage(folder).free if free is None else free
    space = f"{free / 1024**3:,.1f} GiB free on the disk of {home.root}"
    if free < _TOO_LITTLE_SPACE:
        return [problem("home", f"only {space}", "Free some space: the journal and the logs need it.")]
    if free < _LOW_SPACE:
        return [warning("home", f"only {space}", "Free some space, or set ARCHON_HOME to a folder on another disk.")]
    return [ok("home", space)]


def check_sqlite(home: Home, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> list[Finding]:
    """Checks SQLite's version, and that it can use a write-ahead log on the disk of ARCHON_HOME."""
    name = ".".join(map(str, version))
    if version < _FIRST_WITH_RETURNING:
        hint = "Use a Python with a newer SQLite, such as the ones of python.org."
        return [problem("sqlite", f"SQLite {name} is too old: 3.35 or later is required", hint)]
    folder = existing(home.root)
    hint = "Set ARCHON_HOME to a folder on a local disk: network file systems do not support write-ahead logs."
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
        return [problem("sqlite", f"SQLite {name} cannot write to {folder}: {error}", hint)]
    if mode != "wal":
        return [problem("sqlite", f"SQLite {name} cannot use a write-ahead log in {folder}", hint)]
    return [ok("sqlite", f"SQLite {name}, write-ahead log works")]


def check_ports(
    state: MeshState | None, addresses: Collection[str] = (), ports: Mapping[str, int] = DEFAULT_PORTS
) -> list[Finding]:
    """Checks whether another program listens on a default port.

    Ports of the running mesh (`state`) and of the services at `addresses` are expected to be in use.
    """
    own, taken = [], []
    for name, port in ports.items():
        expected = (*addresses, state.address(name) if state is not None else "")
        if any(address.endswith(f":{port}") for address in expected):
            own.append(str(port))
        elif not is_free_here(port):
            taken.append(f"{port} ({name})")
    if taken:
        verb = "is" if len(taken) == 1 else "are"
        hint = "`archon up` chooses other ports; clients with default addresses reach the other program."
        return [warning("ports", f"{', '.join(taken)} {verb} in use by another program or mesh", hint)]
    if not own:
        return [ok("ports", f"{', '.join(str(port) for port in ports.values())} are free")]
    others = ", the others are free" if len(own) < len(ports) else ""
    return [ok("ports", f"{', '.join(own)} in use by this mesh{others}")]


def existing(path: Path) -> Path:
    """Returns the path, or else its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
