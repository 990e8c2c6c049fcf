"""A small disk of a test's own, which it can fill to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.postgres import PostgresServer
from tests.support.require import missing

BLOCK: Final = 1 << 16
NOBODY: Final = 65534


class SmallDisk:
    """A folder on a disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Takes all that is left."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (BLOCK, 4096, 1):
                try:
                    while file.write(b"\0" * size) == size:
                        pass
                except OSError:
                    pass

    def make_room(self) -> None:
        """Gives back what `fill` took. Idempotent."""
        self._filler.unlink(missing_ok=True)

    def database(self, server: PostgresServer) -> str:
        """The address of a new database whose tables lie on this disk; the server's log of changes lies elsewhere."""
        for folder in (self.folder, *self.folder.parents):
            if folder == Path("/tmp"):
                break
            folder.chmod(folder.stat().st_mode | 0o011)  # the server runs as nobody
        space = self.folder / "space"
        space.mkdir(mode=0o777)
        space.chmod(0o777)
        os.chown(space, NOBODY, -1)
        server.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        server.execute("CREATE DATABASE small TABLESPACE small TEMPLATE template0")
        return server.dsn("small")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 32 MB; the test skips where this machine lets nobody mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        missing("small-disk", "only root can mount a small disk")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=777", "tmpfs", folder], capture_output=True)
    if done.returncode:
        missing("small-disk", f"a small disk can't be mounted here: {done.stderr.decode().strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", folder], check=True)
