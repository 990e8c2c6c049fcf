"""`archon up`, `down` and `demo`: what starts, what is said, and that nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import ARCHON, Terminal
from tests.fixtures.waiting import wait_until


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path / "home")
    try:
        yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


def test_demo_answers_its_brief_by_both_strategies_and_leaves_no_process(terminal: Terminal) -> None:
    done = terminal.archon("demo")
    assert done.code == 0, done.err
    assert "starting one for this run" in done.sentences[0]
    pipeline, agent = done.out.split("\n2. Agent: ")
    assert pipeline.startswith("\n1. Pipeline: ")
    for part in (pipeline, agent):
        assert part.count("which meets R") >= 15
        assert "completed after" in part
    assert "coordinator chose whom to ask (requirements, designer, implementer): 3 delegations, 7 model calls" in agent
    assert "archon show " in done.out.splitlines()[-1]
    assert not terminal.processes()


def test_demo_keep_leaves_a_mesh_that_down_ends(terminal: Terminal) -> None:
    assert terminal.archon("demo", "--keep").code == 0
    pids = [one.pid for one in terminal.state().processes]
    assert len(pids) == 8
    assert all(Path(f"/proc/{pid}").exists() or _alive(pid) for pid in pids)
    assert "has ended" in terminal.archon("down").out
    assert not any(map(_alive, pids))
    again = terminal.archon("down")
    assert (again.code, "No mesh is up" in again.out) == (0, True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_up_and_all_its_processes(terminal: Terminal, number: signal.Signals, code: int) -> None:
    with terminal.start("up", "--only", "registry,orchestrator,designer") as running:
        running.until("Ready after")
        assert {one.name for one in terminal.state().processes} == {"etcd", "registry", "orchestrator", "designer-1"}
        running.interrupt(number)
        assert running.end() == code
    assert "The mesh has ended." in running.text
    assert not terminal.processes()


def test_ctrl_c_while_it_starts_ends_it(terminal: Terminal) -> None:
    with terminal.start("up") as running:
        running.until("starting")
        running.interrupt()
        assert running.end() == 130
    assert not terminal.processes()


def test_down_ends_the_mesh_of_another_terminal(terminal: Terminal) -> None:
    with terminal.start("up", "--only", "registry") as running:
        running.until("Ready after")
        assert terminal.archon("down").code == 0
        assert running.end() == 0


def test_processes_end_with_a_supervisor_that_is_killed(terminal: Terminal) -> None:
    assert terminal.archon("up", "--only", "registry,orchestrator", "--detach").code == 0
    os.kill(terminal.state().pid, signal.SIGKILL)
    wait_until(lambda: not terminal.processes())
    assert "No mesh is up" in terminal.archon("down").out
    assert terminal.archon("up", "--only", "registry", "--detach").code == 0


def test_a_process_that_can_not_start_fails_the_mesh_with_the_end_of_its_log(terminal: Terminal) -> None:
    done = terminal.archon("up", "--model", "nonsense", "--only", "registry,designer", "--detach")
    assert done.code == 1
    assert "error: designer-1 can't start" in done.err
    assert "There is no model 'nonsense'" in done.err
    assert not terminal.processes()


def test_a_port_that_was_asked_for_must_be_free(terminal: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = terminal.archon("up", "--only", "registry", "--port", f"registry={port}")
    assert done.code == 1
    assert f"port {port}" in done.sentences[-1]


def test_a_usual_port_that_is_taken_is_replaced_and_said_so(terminal: Terminal) -> None:
    terminal.usual_ports = True
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 7101))
            taken.listen()
        except OSError:
            pass  # another process has it, which is as good
        done = terminal.archon("up", "--only", "registry", "--detach")
    assert done.code == 0
    assert done.sentences[0].startswith("note: port 7101 is taken, so registry listens on ")
    assert terminal.archon("agents").out == "No agent is registered.\n"


def test_an_own_etcd_that_does_not_answer_is_said_at_once(terminal: Terminal) -> None:
    done = terminal.archon("up", "--etcd", "127.0.0.1:1")
    assert done.code == 1
    assert done.err == "error: no etcd answers at 127.0.0.1:1\n"


def test_what_was_run_is_there_after_a_restart(terminal: Terminal) -> None:
    assert terminal.archon("run", "It must be blue.", "--quiet").code == 0
    assert not terminal.processes()
    assert terminal.archon("up", "--only", "registry,orchestrator", "--detach").code == 0
    assert "It must be blue." in terminal.archon("prompts", "last", "--role", "designer").out


def test_commands_without_a_mesh_say_how_to_start_one(terminal: Terminal) -> None:
    for command in (["agents"], ["graph"], ["runs"], ["prompts", "last"]):
        done = terminal.archon(*command)
        assert done.code == 3
        assert done.sentences[0].startswith("error: no mesh is up in ")
        assert "archon up" in done.sentences[1]


def test_help_names_the_exit_codes_and_comes_at_once(terminal: Terminal) -> None:
    took = []
    for _ in range(3):
        began = os.times()
        done = terminal.archon("--help")
        ended = os.times()
        took.append(ended.children_user + ended.children_system - began.children_user - began.children_system)
    assert min(took) < 1.0, "what a command needs is imported by itself"
    for line in ("2    wrong usage", "3    the mesh can't be reached", "130  ended by Ctrl-C"):
        assert line in done.out
    assert terminal.archon("--version").out.startswith("archon 0.")


def test_output_can_be_cut_off_by_a_pipe(terminal: Terminal) -> None:
    assert terminal.archon("up", "--only", "registry", "--detach").code == 0
    command = " ".join(f"'{part}'" for part in ARCHON) + " graph --format json | true"
    done = subprocess.run(["sh", "-c", command], env=terminal.environment, capture_output=True, text=True, timeout=30)
    assert "Traceback" not in done.stderr


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
