"""The PostgreSQL journal on a disk that is really full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from archon.errors import ResourceExhausted
from archon_services.orchestrator.journal import Outcome, RecordRow
from archon_services.orchestrator.journal.postgres import PostgresJournal
from tests.integration.journal.test_conformance import new, step
from tests.support.postgres import PostgresServer


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MB; the test skips where this machine lets nobody mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=777", "tmpfs", disk], capture_output=True)
    if done.returncode:
        pytest.skip(f"a small disk can't be mounted here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


async def test_a_full_disk_refuses_what_it_cannot_hold_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    for folder in (small_disk, *small_disk.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(folder.stat().st_mode | 0o011)  # the server runs as nobody
    space = small_disk / "space"
    space.mkdir(mode=0o777)
    space.chmod(0o777)
    os.chown(space, 65534, -1)
    with PostgresServer() as server:
        server.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        server.execute("CREATE DATABASE small TABLESPACE small TEMPLATE template0")
        journal = PostgresJournal(server.dsn("small"))
        await journal.open()
        await journal.create(new("r"), step("r", 0))
        acknowledged: list[str] = []
        with pytest.raises(ResourceExhausted, match="disk") as refused:
            for n in range(500):
                large = os.urandom(200_000).hex()
                await journal.create(
                    new(f"n{n}"), step(f"n{n}", 0, records=(RecordRow("role", large.encode()),), time=1.0 + n)
                )
                acknowledged.append(f"n{n}")
        assert refused.value.retry_delay
        assert acknowledged
        assert await journal.open_runs() == [*acknowledged, "r"], "what was refused is not there, all else is"
        subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
        assert await journal.append(step("r", 1)) is Outcome.DONE
        await journal.create(new("more"), step("more", 0, records=(RecordRow("role", os.urandom(200_000)),)))
        await journal.close()
