"""A cache of builds for tests outside the clone: archives in $XDG_CACHE_HOME/archon/tools, one for each key.

A cache that is empty, broken or not writable costs time only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fixtures.environment import CALLER

KEPT: Final = 6
"""The number of archives that are kept per program; older archives are deleted."""


def folder() -> Path:
    """Returns the folder of the cache, which need not exist."""
    home = CALLER.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "archon" / "tools"


def has(key: str) -> bool:
    """Returns whether there is an archive of this key."""
    return (folder() / f"{key}.tar").exists()


def fetch(key: str, target: Path) -> bool:
    """Extracts the archive of this key into `target`. Returns False if there is none, or if it is not readable."""
    archive = folder() / f"{key}.tar"
    try:
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python before 3.11.4 has no filters
            tar.extractall(target)
        os.utime(archive)
    except (OSError, tarfile.TarError):
        return False
    return True


def store(key: str, source: Path, *names: str) -> None:
    """Archives the named files in `source`, or all files, under this key. Does nothing if the cache is not writable."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder(), prefix=f"{key}.", suffix=".part")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            for name in names or sorted(os.listdir(source)):
                tar.add(source / name, name)
        os.replace(temporary, folder() / f"{key}.tar")
        _prune(key)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _prune(key: str) -> None:
    archives = sorted(
        folder().glob(f"{key.partition('-')[0]}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for archive in archives[KEPT:]:
        archive.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds a lock between processes during the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
