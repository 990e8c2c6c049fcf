"""Services whose database is on a disk that is read-only or full: the start fails with one sentence."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.services import ServiceProcess
from tests.fixtures.small_disk import SmallDisk, small_disk

__all__ = ["small_disk"]

SERVICES = {
    "journal": ("archon_services.orchestrator", "ARCHON_JOURNAL"),
    "memory store": ("archon_services.memory", "ARCHON_DB"),
}

Spoil = Callable[[SmallDisk], None]


@pytest.fixture(params=list(SERVICES))
def kind(request: pytest.FixtureRequest) -> str:
    """What a service calls its database."""
    return str(request.param)


def service(kind: str, home: Path, file: Path) -> ServiceProcess:
    module, setting = SERVICES[kind]
    return ServiceProcess(module, home, ARCHON_REGISTRY="127.0.0.1:1", **{setting: str(file)})


async def refusal(kind: str, home: Path, file: Path) -> str:
    """Returns the only line of a failed start."""
    process = service(kind, home, file)
    try:
        code = await process.start_or_exit()
    finally:
        await process.close()
    assert code == 1
    (line,) = process.log.read_text().splitlines()
    process.log.unlink()
    assert f"the {kind} {file} cannot be used: " in line
    return line


@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
async def test_a_read_only_disk_is_one_sentence(
    tmp_path: Path, small_disk: SmallDisk, kind: str, existing: bool
) -> None:
    file = small_disk.folder / "data" / "store.db"
    if existing:
        process = service(kind, tmp_path, file)
        await process.start()
        await process.stop()
        process.log.unlink()
    small_disk.make_read_only()
    line = await refusal(kind, tmp_path, file)
    assert "Read-only file system" in line
    assert (
        f"make the file and its folder writable for this user, or choose another file with {SERVICES[kind][1]}" in line
    )


@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
async def test_a_full_disk_is_one_sentence(tmp_path: Path, small_disk: SmallDisk, kind: str, existing: bool) -> None:
    file = small_disk.folder / "data" / "store.db"
    if existing:
        process = service(kind, tmp_path, file)
        await process.start()
        await process.stop()
        process.log.unlink()
    small_disk.fill()
    line = await refusal(kind, tmp_path, file)
    assert "its disk is full; make room and start again" in line
    small_disk.make_room()
    process = service(kind, tmp_path, file)
    await process.start()
    assert await process.stop() == 0


async def test_a_full_disk_beside_a_wal_is_one_sentence(tmp_path: Path, small_disk: SmallDisk, kind: str) -> None:
    """The process before it was killed: recovering the file needs room."""
    file = small_disk.folder / "data" / "store.db"
    process = service(kind, tmp_path, file)
    await process.start()
    await process.kill()
    process.log.unlink()
    await asyncio.to_thread(Path(f"{file}-shm").unlink, missing_ok=True)
    small_disk.fill()
    assert "its disk is full; make room and start again" in await refusal(kind, tmp_path, file)
    small_disk.make_room()
    process = service(kind, tmp_path, file)
    await process.start()
    assert await process.stop() == 0


async def test_a_folder_that_is_a_file_is_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    line = await refusal(kind, tmp_path, tmp_path / "file" / "store.db")
    assert f"choose another file with {SERVICES[kind][1]}" in line


async def test_a_folder_in_place_of_the_file_is_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / "store.db").mkdir()
    line = await refusal(kind, tmp_path, tmp_path / "store.db")
    assert f"choose another file with {SERVICES[kind][1]}" in line
    shutil.rmtree(tmp_path / "store.db")
