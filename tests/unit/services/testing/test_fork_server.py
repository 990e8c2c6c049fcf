"""The server that forks the services of tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.fork_server import ForkedProcess, ForkServer
from tests.fixtures.waiting import wait_until

MODULE = "tests.fixtures.forked_module"


@pytest.fixture(scope="module")
def server() -> ForkServer:
    return ForkServer()


def fork(server: ForkServer, log: Path, *arguments: str, **environment: str) -> ForkedProcess:
    return server.fork(MODULE, arguments, {**os.environ, **environment}, log)


def test_a_forked_module_gets_its_arguments_environment_and_log(server: ForkServer, tmp_path: Path) -> None:
    process = fork(server, tmp_path / "log", "exit", "3", GREETING="hello")
    assert process.wait(10) == 3
    assert (tmp_path / "log").read_text() == f"__main__ {process.pid} hello ['exit', '3'] in {Path.cwd()}\n"


def test_an_exception_is_in_the_log_and_the_exit_code_is_1(server: ForkServer, tmp_path: Path) -> None:
    assert fork(server, tmp_path / "log", "raise", GREETING="").wait(10) == 1
    assert "RuntimeError: as asked" in (tmp_path / "log").read_text()


def test_a_command_gets_its_input_and_its_output_and_message_are_returned(server: ForkServer) -> None:
    ended = server.run(MODULE, ["echo"], {**os.environ, "GREETING": "hello"}, "two\nlines\n", timeout=10)
    assert (ended.returncode, ended.stdout) == (1, "two\nlines\n")
    assert ended.stderr == "__main__\nthe message at the end\n"


def test_a_command_that_does_not_end_is_killed(server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(MODULE, ["sleep", str(tmp_path / "pid")], {**os.environ, "GREETING": ""}, "", timeout=1)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_fork_awaits_its_threads_and_runs_its_exit_functions(server: ForkServer, tmp_path: Path) -> None:
    assert fork(server, tmp_path / "log", "leave", GREETING="").wait(10) == 0
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["the thread has ended", "at exit"]


def test_random_numbers_of_two_forks_differ(server: ForkServer, tmp_path: Path) -> None:
    for number in range(2):
        assert fork(server, tmp_path / f"{number}", "random", GREETING="").wait(10) == 0
    assert (tmp_path / "0").read_text() != (tmp_path / "1").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_fork(server: ForkServer, tmp_path: Path, number: int) -> None:
    process = fork(server, tmp_path / "log", "sleep", GREETING="")
    wait_until(lambda: (tmp_path / "log").exists() and bool((tmp_path / "log").read_text()))
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(10) == -number
    process.send_signal(number)


def test_a_frozen_fork_has_stopped_when_the_signal_was_sent(server: ForkServer, tmp_path: Path) -> None:
    process = fork(server, tmp_path / "log", "count", GREETING="")
    wait_until(lambda: (tmp_path / "log").exists() and "99" in (tmp_path / "log").read_text())
    for _ in range(20):
        process.send_signal(signal.SIGSTOP)
        size = (tmp_path / "log").stat().st_size
        assert all((tmp_path / "log").stat().st_size == size for _ in range(1_000))
        process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGKILL)
    process.wait(10)


def test_forks_end_with_the_process_that_wanted_them(tmp_path: Path) -> None:
    script = f"""
import os, pathlib, sys, time
from tests.fixtures.fork_server import fork_server
process = fork_server.fork({MODULE!r}, ["sleep"], {{**os.environ, "GREETING": ""}}, pathlib.Path({str(tmp_path / "log")!r}))
print(process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        client.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
