"""The use of the fork server by tests, which block. What every fork does is in the tests of the server itself."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.fixtures.fork_server import ForkedProcess, ForkServer
from tests.fixtures.waiting import wait_until

MODULE = "tests.fixtures.forked_module"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer(["tests"])  # without the services, which take longer to import than all else
    yield server
    server.close()


def fork(server: ForkServer, log: Path, *arguments: str) -> ForkedProcess:
    return server.fork(MODULE, arguments, {**os.environ, "GREETING": "hello"}, log)


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children()}


def test_a_fork_returns_its_exit_code_as_often_as_it_is_asked(server: ForkServer, tmp_path: Path) -> None:
    process = fork(server, tmp_path / "log", "exit", "3")
    assert (process.wait(10), process.poll(), process.wait(0), process.returncode) == (3, 3, 3, 3)
    assert (tmp_path / "log").read_text() == f"__main__ {process.pid} hello ['exit', '3'] in {Path.cwd()}\n"


def test_a_command_gets_its_input_and_its_output_and_message_are_returned(server: ForkServer) -> None:
    ended = server.run(MODULE, ["echo"], os.environ, "two\nlines\n", timeout=10)
    assert (ended.returncode, ended.stdout) == (1, "two\nlines\n")
    assert ended.stderr == "__main__\nthe message at the end\n"


def test_a_command_that_does_not_end_is_killed(server: ForkServer, tmp_path: Path) -> None:
    assert fork(server, tmp_path / "log", "exit", "0").wait(10) == 0
    before = children()
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(MODULE, ["sleep"], os.environ, "", timeout=0.2)
    assert children() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_fork(server: ForkServer, tmp_path: Path, number: int) -> None:
    process = fork(server, tmp_path / "log", "sleep")
    wait_until(lambda: (tmp_path / "log").exists() and bool((tmp_path / "log").read_text()))
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(10) == -number
    process.send_signal(number)


def test_a_frozen_fork_has_stopped_when_the_signal_was_sent(server: ForkServer, tmp_path: Path) -> None:
    process = fork(server, tmp_path / "log", "count")
    wait_until(lambda: (tmp_path / "log").exists() and "99" in (tmp_path / "log").read_text())
    for _ in range(20):
        process.send_signal(signal.SIGSTOP)
        size = (tmp_path / "log").stat().st_size
        assert all((tmp_path / "log").stat().st_size == size for _ in range(1_000))
        process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL


def test_orphans_of_other_processes_are_not_adopted(server: ForkServer, tmp_path: Path) -> None:
    assert fork(server, tmp_path / "log", "exit", "0").wait(10) == 0
    orphan = int(subprocess.check_output(["sh", "-c", 'sleep 60 >/dev/null & echo "$!"']))
    try:
        assert orphan not in children()
    finally:
        os.kill(orphan, signal.SIGKILL)
