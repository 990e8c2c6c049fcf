"""Processes that are forked with their modules imported."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
import pytest

from archon_services.local_mesh.forks import ForkedProcess, ForkServer
from tests.fixtures.waiting import until, wait_until

MODULE = "tests.fixtures.forked_module"
ENVIRONMENT = {**os.environ, "GREETING": "hello"}


def command(*arguments: str) -> Sequence[str]:
    return (sys.executable, "-P", "-m", MODULE, *arguments)


@pytest.fixture
async def forks() -> AsyncIterator[ForkServer]:
    async with ForkServer(["json"], {**os.environ, "PYTHONPATH": str(Path.cwd())}) as server:
        yield server


async def fork(server: ForkServer, log: Path, *arguments: str) -> ForkedProcess:
    process = await server.fork(command(*arguments), ENVIRONMENT, log)
    assert process is not None
    return process


async def ended(process: ForkedProcess) -> int:
    async with asyncio.timeout(60):
        return await process.wait()


async def test_a_fork_gets_arguments_environment_and_log(forks: ForkServer, tmp_path: Path) -> None:
    process = await fork(forks, tmp_path / "log", "exit", "3")
    assert await ended(process) == process.returncode == 3
    assert (tmp_path / "log").read_text() == f"__main__ {process.pid} hello ['exit', '3'] in {Path.cwd()}\n"


async def test_an_exception_is_in_its_log(forks: ForkServer, tmp_path: Path) -> None:
    assert await ended(await fork(forks, tmp_path / "log", "raise")) == 1
    assert "RuntimeError: as asked" in (tmp_path / "log").read_text()


async def test_a_fork_awaits_its_threads_and_runs_its_exit_functions(forks: ForkServer, tmp_path: Path) -> None:
    assert await ended(await fork(forks, tmp_path / "log", "leave")) == 0
    assert (tmp_path / "log").read_text().splitlines() == ["leaving", "the thread has ended", "at exit"]


async def test_a_text_given_to_exit_is_in_the_log(forks: ForkServer, tmp_path: Path) -> None:
    assert await ended(await fork(forks, tmp_path / "log", "echo")) == 1
    assert (tmp_path / "log").read_text() == "__main__\nthe message at the end\n"


async def test_random_numbers_of_two_forks_differ(forks: ForkServer, tmp_path: Path) -> None:
    for name in ("1", "2"):
        assert await ended(await fork(forks, tmp_path / name, "random")) == 0
    assert (tmp_path / "1").read_text() != (tmp_path / "2").read_text()


async def test_a_fork_is_a_child_with_a_session_of_its_own(forks: ForkServer, tmp_path: Path) -> None:
    process = await fork(forks, tmp_path / "log", "sleep")
    await until(lambda: bool((tmp_path / "log").read_text()))
    seen = psutil.Process(process.pid)
    assert seen.ppid() == os.getpid()
    assert os.getpgid(process.pid) == os.getsid(process.pid) == process.pid
    assert [part for part in seen.cmdline() if part] == list(command("sleep"))
    assert process.returncode is None
    process.terminate()
    assert await ended(process) == -signal.SIGTERM
    process.send_signal(signal.SIGKILL)  # no process to send it to


async def test_a_fork_outlives_its_server_and_is_reaped(tmp_path: Path) -> None:
    async with ForkServer(["json"], {**os.environ, "PYTHONPATH": str(Path.cwd())}) as server:
        process = await fork(server, tmp_path / "log", "sleep")
    assert await server.fork(command("sleep"), ENVIRONMENT, tmp_path / "log") is None
    assert process.returncode is None
    process.send_signal(signal.SIGKILL)
    assert await ended(process) == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


async def test_a_server_that_cannot_import_forks_nothing(tmp_path: Path) -> None:
    async with ForkServer(["archon_services.no_such_module"], os.environ) as server:
        assert await server.fork(command("exit", "0"), ENVIRONMENT, tmp_path / "log") is None


async def test_another_program_is_not_forked(forks: ForkServer, tmp_path: Path) -> None:
    assert await forks.fork(("/bin/true",), ENVIRONMENT, tmp_path / "log") is None
    assert await ended(await fork(forks, tmp_path / "log", "exit", "0")) == 0


def test_forks_end_with_their_parent(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, pathlib, sys
from archon_services.local_mesh.forks import ForkServer
async def main():
    async with ForkServer(["json"], os.environ) as server:
        process = await server.fork({list(command("sleep"))!r}, dict(os.environ), pathlib.Path({str(tmp_path / "log")!r}))
    print(process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
