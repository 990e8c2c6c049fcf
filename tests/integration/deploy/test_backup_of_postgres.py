"""The nightly backup of PostgreSQL, as its manifest says, and the restore of docs/upgrade-and-backup.md."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from archon.client import answer_text
from archon.testing import FakeAgent
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.postgres import postgres_binaries
from tests.unit.deploy.kustomize_output import render, templates, variables

pytestmark = pytest.mark.slow


def programs() -> str:
    binaries = postgres_binaries()
    assert binaries is not None
    return f"{binaries}:{os.defpath}"


def back_up(folder: Path, name: str, dsn: str) -> None:
    """Runs the command of the backup's container, with its variables."""
    [container] = templates(render("overlays/production"))["archon-backup"]["spec"]["containers"]
    shell, options, script = container["command"]
    values = {key: value for key, value in variables(container).items() if isinstance(value, str)}
    subprocess.run(
        [shell, options, script.replace("/backup", str(folder))],
        env={**values, "POD_NAME": name, "DATABASE": dsn, "PATH": programs()},
        check=True,
        timeout=60,
    )


def restore(file: Path, dsn: str) -> None:
    command = ["pg_restore", "--clean", "--if-exists", f"--dbname={dsn}", str(file)]
    subprocess.run(command, env={"PATH": programs()}, check=True, timeout=60)


async def answered(mesh: Mesh, role: str, goal: str) -> str:
    """Executes a run and returns its id."""
    run = (await mesh.client.submit(goal, roles=[role], wait=10)).run
    assert run.state == TaskState.COMPLETED
    return run.run_id


async def test_runs_of_a_backup_are_there_after_its_restore(tmp_path: Path, postgres_dsn: str) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    for name, days in (("old.postgresql", 15.5), ("recent.postgresql", 13.0)):
        (backups / name).touch()
        os.utime(backups / name, (time.time() - days * 86_400,) * 2)

    mesh = Mesh(tmp_path)
    await mesh.start(ARCHON_JOURNAL=postgres_dsn)
    try:
        async with FakeAgent("greeter", ["hello"] * 2, registry=mesh.registry.address):
            before = await answered(mesh, "greeter", "before")
            await asyncio.to_thread(back_up, backups, "archon-backup-1", postgres_dsn)
            after = await answered(mesh, "greeter", "after")
    finally:
        await mesh.stop()
    assert {path.name for path in backups.iterdir()} == {"archon-backup-1.postgresql", "recent.postgresql"}

    await asyncio.to_thread(restore, backups / "archon-backup-1.postgresql", postgres_dsn)
    mesh = Mesh(tmp_path)
    await mesh.start(ARCHON_JOURNAL=postgres_dsn)
    try:
        runs = {run.run_id for run in await mesh.client.list_runs()}
        assert before in runs and after not in runs
        assert answer_text(await mesh.client.get(before)) == "hello"
        async with FakeAgent("greeter", ["again"], registry=mesh.registry.address):
            assert await answered(mesh, "greeter", "new") not in (before, after)
    finally:
        await mesh.stop()


async def test_a_backup_that_fails_leaves_no_file_of_its_name(tmp_path: Path, postgres_dsn: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        await asyncio.to_thread(back_up, tmp_path, "archon-backup-2", postgres_dsn.replace("s3cret", "wrong"))
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".postgresql")]
