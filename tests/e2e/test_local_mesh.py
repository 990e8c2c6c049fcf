"""The mesh of the testing package: processes are killed, frozen and restarted, and none outlives it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from archon.client import Client
from archon.errors import DeadlineExceeded
from archon_services.testing.mesh import LocalMesh
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.programs import is_alive
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.slow


async def test_killed_process_is_restarted_and_the_mesh_serves() -> None:
    previous = os.umask(0)
    try:
        mesh = LocalMesh(replicas={"designer": 2})
        mesh.start()
    finally:
        os.umask(previous)
    with closing(mesh):
        assert set(mesh.pids) == {
            *("supervisor", "etcd", "registry", "memory", "orchestrator", "gateway"),
            *("requirements-1", "designer-1", "designer-2", "implementer-1", "coordinator-1", "planner-1"),
        }
        assert_no_core_files(mesh)
        killed = mesh.kill("designer-1")
        assert mesh.wait("designer-1", not_pid=killed).restarts == 1
        before = mesh.orchestrator
        mesh.restart("orchestrator")
        assert mesh.orchestrator == before
        async with Client(mesh.orchestrator, credentials=mesh.credentials) as client:
            run = await (await client.submit("It must be blue.")).result(timeout=PATIENCE)
            assert [answer.role for answer in run.answers] == ["implementer"]
        assert_private(mesh.home)
        pids, home = mesh.pids, mesh.home
        mesh.freeze("implementer-1")
    assert not any(map(is_alive, pids.values()))
    assert not home.exists()


def assert_no_core_files(mesh: LocalMesh) -> None:
    """Asserts that a crash of a process that holds keys writes no core file."""
    for name, pid in mesh.pids.items():
        if name not in ("supervisor", "etcd"):
            [limit] = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "core file" in line]
            assert limit.split()[4] == "0", name


def assert_private(home: Path) -> None:
    """Asserts that state and logs are for their owner alone, although the mask of the caller was 0."""
    modes = {path: path.lstat().st_mode for path in [home, *home.rglob("*")]}
    assert {"journal.db", "memory.db", "state.json", "registry.log"} <= {path.name for path in modes}
    assert [str(path) for path, mode in modes.items() if mode & 0o077 and not stat.S_ISLNK(mode)] == []


def test_a_role_has_its_environment_and_needs_resume_without_restarts() -> None:
    environment = {"designer": {"ARCHON_MAX_TASKS": "3"}}
    with LocalMesh(only=["registry", "designer", "requirements"], environment=environment, restarts=False) as mesh:
        rows = [line.split() for line in Terminal(mesh.home).archon("agents").out.splitlines()[1:]]
        assert {row[0]: row[4] for row in rows} == {"designer": "0/3", "requirements": "0/8"}
        killed = mesh.kill("designer-1")
        mesh.wait("designer-1", "stopped")
        with pytest.raises(DeadlineExceeded, match="designer-1 is stopped"):
            mesh.wait("designer-1", "healthy", timeout=0.1)
        mesh.resume("designer-1")
        assert mesh.pids["designer-1"] != killed
        with pytest.raises(KeyError):
            mesh.pause("designer-7")


def test_mesh_ends_with_a_killed_test() -> None:
    script = (
        "import time\n"
        "from archon_services.testing.mesh import LocalMesh\n"
        "with LocalMesh(only=['registry']) as mesh:\n"
        "    print(*mesh.pids.values(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            pids = [int(pid) for pid in process.stdout.readline().split()]
            assert len(pids) == 3
        finally:
            os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)))
