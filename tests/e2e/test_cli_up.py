"""`archon up`, `down` and `demo`: processes, output, and that no process is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.fixtures.programs import is_alive
from tests.fixtures.waiting import wait_until


def remove(folder: Path) -> None:
    """Removes a folder in which a process writes meanwhile."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path / "home")
    try:
        yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


@pytest.mark.search
def test_demo_survives_two_kills_on_one_screen_and_leaves_no_process(terminal: Terminal) -> None:
    result = terminal.program("demo")
    assert result.code == 0, result.err
    assert "starting a temporary one" in result.error_lines[0]
    lines = [*result.error_lines, *result.out.splitlines()]
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert [" ".join(line.split()[2:4]) for line in lines if " s  " in line and "kill" in line] == ["analyst kill"]
    assert "goes on in another process: 4 causes are examined already" in result.out
    assert "Cause    version 2.5.0 and pay cardco: 28 of 33 (85%) failed," in lines
    assert "the orchestrator is dead, and back after" in result.out
    assert "Its journal has the same answer; attempts: reader 1, analyst 2, reporter 1." in lines
    assert not terminal.processes()


@pytest.mark.search
def test_down_stops_the_mesh_of_demo_keep(terminal: Terminal) -> None:
    assert terminal.archon("demo", "--keep").code == 0
    pids = [process.pid for process in terminal.state().processes]
    assert len(pids) == 10
    assert all(Path(f"/proc/{pid}").exists() or is_alive(pid) for pid in pids)
    assert "Stopped the mesh" in terminal.archon("down").out
    assert not any(map(is_alive, pids))
    again = terminal.archon("down")
    assert (again.code, "No mesh is running" in again.out) == (0, True)


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 0, marks=pytest.mark.slow)]
)
def test_signal_stops_up_and_all_its_processes(terminal: Terminal, signum: signal.Signals, code: int) -> None:
    with terminal.start("up", "--only", "registry,orchestrator,designer", program=True) as running:
        running.until("Ready after")
        assert {process.name for process in terminal.state().processes} == {
            "etcd",
            "registry",
            "orchestrator",
            "designer-1",
        }
        running.interrupt(signum)
        assert running.end() == code
    assert "Mesh stopped." in running.text
    assert not terminal.processes()


def test_ctrl_c_during_the_start_stops_the_mesh(terminal: Terminal) -> None:
    with terminal.start("up", program=True) as running:
        running.until("starting")
        running.interrupt()
        assert running.end() == 130
    assert not terminal.processes()


def test_down_stops_the_mesh_of_another_terminal(terminal: Terminal) -> None:
    with terminal.start("up", "--only", "registry") as running:
        running.until("Ready after")
        assert terminal.archon("down").code == 0
        assert running.end() == 0


def test_processes_end_with_a_killed_supervisor(terminal: Terminal) -> None:
    assert terminal.archon("up", "--only", "registry,memory", "--detach").code == 0
    assert len(terminal.processes()) == 4, "the supervisor, etcd, and two forks"
    os.kill(terminal.state().pid, signal.SIGKILL)
    wait_until(lambda: not terminal.processes())
    findings = {finding["check"]: finding for finding in json.loads(terminal.archon("doctor", "--json").out)}
    assert findings["state"]["level"] == "warning"
    assert "left over from a mesh that is not running" in findings["state"]["message"]
    assert "No mesh is running" in terminal.archon("down").out
    assert terminal.archon("up", "--only", "registry", "--detach").code == 0


@pytest.mark.parametrize("gone", ["removed", pytest.param("moved", marks=pytest.mark.search)])
def test_a_mesh_ends_when_its_folder_is_gone(terminal: Terminal, tmp_path: Path, gone: str) -> None:
    with terminal.start("up", "--only", "registry,orchestrator,designer", program=True) as running:
        running.until("Ready after")
        if gone == "removed":
            remove(terminal.home)
        else:
            terminal.home.rename(tmp_path / "elsewhere")
        assert running.end() == 1
    assert f"error: the folder {terminal.home} was removed or replaced while its mesh was running" in running.text
    assert not terminal.processes()
    assert not terminal.home.exists()


def test_a_mesh_whose_folder_was_removed_makes_room_for_the_next(terminal: Terminal) -> None:
    assert terminal.archon("up", "--only", "registry", "--detach").code == 0
    previous = terminal.state()
    remove(terminal.home)
    assert terminal.archon("up", "--only", "registry", "--detach").code == 0
    wait_until(lambda: not is_alive(previous.pid))
    assert terminal.state().pid != previous.pid
    assert terminal.state().phase == "ready", "the previous mesh leaves the files of this one alone"
    assert terminal.archon("agents").code == 0


def test_a_model_without_a_key_is_refused_before_anything_is_started(terminal: Terminal) -> None:
    result = terminal.archon("up", "--model", "openai/some", "--detach")
    assert (result.code, result.out) == (2, "")
    assert result.error_lines == [
        "error: openai/some has no usable key",
        "hint: Set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that needs no key.",
    ]
    assert terminal.archon("up", "--model", "nonsense", "--detach").error_lines[0] == "error: unknown model 'nonsense'"
    assert not terminal.home.exists()


def test_failed_process_fails_the_mesh_with_its_log(terminal: Terminal) -> None:
    terminal.environment["ARCHON_MAX_TASKS"] = "many"
    result = terminal.archon("up", "--only", "registry,designer", "--detach")
    assert result.code == 1
    assert "error: designer-1 cannot start" in result.err
    assert "ARCHON_MAX_TASKS" in result.err
    assert not terminal.processes()


def test_fixed_port_in_use_fails_the_mesh(terminal: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = terminal.archon("up", "--only", "registry", "--port", f"registry={port}")
    assert result.code == 1
    assert f"port {port}" in result.error_lines[-1]


def test_default_port_in_use_is_replaced_with_a_note(terminal: Terminal) -> None:
    terminal.usual_ports = True
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def is_taken() -> bool:
            try:
                taken.bind(("127.0.0.1", 7101))
                taken.listen()
            except OSError:
                return False
            return True

        with suppress(AssertionError):  # another process listens there, and stays
            wait_until(is_taken, within=2.0)
        result = terminal.archon("up", "--only", "registry", "--detach")
    assert result.code == 0
    assert result.error_lines[0].startswith("note: port 7101 is in use: registry listens on ")
    assert terminal.archon("agents").out == "No agents are registered.\n"


def test_unreachable_etcd_fails_the_mesh_at_once(terminal: Terminal) -> None:
    result = terminal.archon("up", "--etcd", "127.0.0.1:1")
    assert result.code == 1
    assert result.err == "error: no etcd answers at 127.0.0.1:1\n"


@pytest.mark.slow
def test_runs_survive_a_restart_of_the_mesh(terminal: Terminal) -> None:
    assert terminal.fork("run", "It must be blue.", "--quiet").code == 0
    assert not terminal.processes()
    assert terminal.archon("up", "--only", "registry,orchestrator", "--detach").code == 0
    assert "It must be blue." in terminal.archon("prompts", "last", "--role", "designer").out


def test_commands_without_a_mesh_print_how_to_start_one(terminal: Terminal) -> None:
    alone, of_a_run = ("agents", "graph", "runs"), ("prompts", "trace", "show", "watch", "cancel")
    for command in (*((name,) for name in alone), *((name, "last") for name in of_a_run)):
        result = terminal.archon(*command)
        assert result.code == 3
        assert result.error_lines[0].startswith("error: no mesh is running in ")
        assert "archon up" in result.error_lines[1]


def test_help_lists_exit_codes(terminal: Terminal) -> None:
    result = terminal.archon("--help")
    for line in ("2    invalid usage", "3    the mesh is unreachable", "130  interrupted by Ctrl-C"):
        assert line in result.out
    assert terminal.archon("--version").out.startswith("archon 0.")


def test_commands_import_their_dependencies_when_they_run() -> None:
    heavy = ("grpc", "pydantic", "networkx", "openai", "rich.console", "archon_mesh", "yaml")
    commands = "from archon_services.cli.command_table import COMMANDS, load_command; [*map(load_command, COMMANDS)]"
    script = f"import sys; {commands}; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_what_a_mesh_starts_carries_its_id(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.archon("up", "--detach", "--only", "registry,orchestrator,requirements").code == 0
    mesh_id = (terminal.home / "mesh-id").read_text().strip()
    assert len(mesh_id) == 12
    for process in terminal.state().processes:
        variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        if process.kind != "etcd":
            assert f"ARCHON_MESH={mesh_id}".encode() in variables or _is_fork(process.pid), process.name
    other = {**terminal.environment, "ARCHON_MESH": "0" * 12, "ARCHON_REGISTRY": terminal.state().registry}
    refused = subprocess.run(
        [sys.executable, "-m", "archon_services.agents", "designer"],
        env=other,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 1
    assert f"this is a member of the mesh {mesh_id}, and the caller belongs to the mesh 000000000000" in refused.stderr
    (tmp_path / "helper.yaml").write_text("name: helper\n")
    inside_an_agent = Terminal(terminal.home, ARCHON_MESH="0" * 12)
    with inside_an_agent.start("serve", str(tmp_path / "helper.yaml")):
        wait_until(lambda: "helper" in terminal.archon("agents").out, 30)
    terminal.archon("down")
    assert terminal.archon("up", "--detach", "--only", "registry").code == 0
    assert (terminal.home / "mesh-id").read_text().strip() == mesh_id


def _is_fork(pid: int) -> bool:
    """Whether the process has the environment of the server that forked it, as the system shows it."""
    return b"forks" in Path(f"/proc/{pid}/cmdline").read_bytes()
