"""The commands that look at runs and at the machine, against one mesh of real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archon_services.cli.checks import clock
from tests.e2e.terminal import ARCHON, PATIENCE, Running, Terminal
from tests.fixtures.waiting import wait_until

GOAL = "Build a todo app. It must sync across devices."


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("mesh"))
    try:
        done = terminal.archon("up", "--detach")
        assert done.code == 0, done.err
        yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


@contextmanager
def stuck_run(terminal: Terminal) -> Iterator[tuple[str, Running]]:
    """A run that can't go on while the block lasts: its first role is frozen. Yields its id and the command."""
    pid = terminal.pid("requirements-1")
    os.kill(pid, signal.SIGSTOP)
    try:
        with terminal.start("run", GOAL) as running:
            running.until("requirements   working  on")
            yield last_run(terminal), running
    finally:
        os.kill(pid, signal.SIGCONT)
        # An orchestrator that saw it silent has given it up for now: wait until it takes tasks again.
        wait_until(lambda: terminal.archon("run", GOAL, "--quiet").code == 0, within=PATIENCE)


def last_run(terminal: Terminal) -> str:
    [run] = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
    return str(run["run_id"])


@pytest.fixture(scope="module")
def finished(terminal: Terminal) -> str:
    """The id of a run that has completed."""
    assert terminal.archon("run", GOAL, "--quiet").code == 0
    return last_run(terminal)


def test_show_tells_the_tasks_and_then_the_answer(terminal: Terminal, finished: str) -> None:
    done = terminal.archon("show", finished)
    head, tree, answer = done.out[: done.out.index("├")], *done.out[done.out.index("├") :].split("\n\n", 1)
    assert head.splitlines()[0] == f"run {finished}  completed"
    assert GOAL in head
    assert [line.split()[1] for line in tree.splitlines()] == ["requirements", "designer", "implementer"]
    for line in tree.splitlines():
        assert "completed  on " in line and "attempt 1" in line and "memory v1" in line and "tokens ~" in line
    assert tree.splitlines()[2].endswith("after requirements, designer")
    assert "class Sync" in answer
    assert terminal.archon("show", "--no-answer", finished).out == head + tree + ("" if tree.endswith("\n") else "\n")


def test_show_takes_the_beginning_of_an_id_and_json(terminal: Terminal, finished: str) -> None:
    run = json.loads(terminal.archon("show", finished[:12], "--json").out)
    assert (run["run_id"], run["state"]) == (finished, "TASK_STATE_COMPLETED")
    assert [task["role"] for task in run["tasks"]] == ["requirements", "designer", "implementer"]
    assert run["answers"][0]["role"] == "implementer"
    assert "answers" not in json.loads(terminal.archon("show", finished, "--json", "--no-answer").out)


def test_watch_tells_an_ended_run_again_from_any_event_on(terminal: Terminal, finished: str) -> None:
    whole = terminal.archon("watch", finished, "--json")
    events = [json.loads(line) for line in whole.out.splitlines()]
    assert (whole.code, whole.err) == (0, "")
    assert [int(event["seq"]) for event in events] == list(range(1, len(events) + 1))
    some = [json.loads(line) for line in terminal.archon("watch", finished, "--json", "--from", "5").out.splitlines()]
    assert some == events[4:]
    lines = terminal.archon("watch", finished, "--from", str(len(events)))
    assert [line.split("  ")[-1] for line in lines.sentences] == [f"run {finished} completed"]
    assert "class Sync" in lines.out


def test_watch_follows_a_run_of_another_terminal_and_ctrl_c_leaves_it_alone(terminal: Terminal) -> None:
    with stuck_run(terminal) as (run_id, running):
        with terminal.start("watch", run_id) as watching:
            watching.until("requirements   working  on")
            watching.interrupt()
            assert watching.end() == 130
        with terminal.start("watch", run_id, "--json") as watching:
            watching.until("dispatched")
            assert terminal.archon("cancel", run_id, "--reason", "enough of it", "--wait").code == 0
            assert watching.end() == 1
        assert json.loads(watching.text.splitlines()[-1])["run_state"]["state"] == "TASK_STATE_CANCELED"
        assert running.end() == 1
    assert "enough of it" in running.text


def test_show_tells_what_a_stuck_run_waits_for_and_cancel_ends_it(terminal: Terminal) -> None:
    with stuck_run(terminal) as (run_id, _):
        lines = terminal.archon("show", "last").out.splitlines()
        assert lines[0].startswith(f"run {run_id}  ")
        assert any("designer" in line and "waits for the answer of requirements" in line for line in lines)
        said = terminal.archon("cancel", run_id[:16], "--wait").out
        assert said == f"Run {run_id} has ended: canceled.\n"
        assert terminal.archon("cancel", run_id).out == f"Run {run_id} has already ended: canceled.\n"
        assert terminal.archon("watch", run_id).code == 1


def test_doctor_finds_a_healthy_mesh_well(terminal: Terminal) -> None:
    done = terminal.archon("doctor", "--json")
    found = {one["check"]: one for one in json.loads(done.out)}
    assert done.code == 0
    for check in ("python", "packages", "sqlite", "etcd program", "etcd", "state", "mesh", "agents", "clock", "model"):
        assert found[check]["level"] == "ok", found[check]
    assert "8 processes" in found["mesh"]["message"]
    assert "4 registered" in found["agents"]["message"]


def test_doctor_names_a_process_that_is_silent_and_its_log(terminal: Terminal) -> None:
    os.kill(terminal.pid("designer-1"), signal.SIGSTOP)
    try:
        done = terminal.archon("doctor")
    finally:
        os.kill(terminal.pid("designer-1"), signal.SIGCONT)
    assert done.code == 1
    [line] = [line for line in done.out.splitlines() if line.startswith("problem")]
    assert "designer-1 doesn't serve" in line
    assert str(terminal.home / "logs" / "designer-1.log") in done.out
    assert "not answering here: designer-" in done.out
    assert done.out.splitlines()[-1].startswith("1 problem")


async def test_doctor_sees_runs_from_the_future(terminal: Terminal, finished: str) -> None:
    orchestrator = terminal.state().address("orchestrator")
    assert await clock.check_events(orchestrator) == []
    [found] = await clock.check_events(orchestrator, now=time.time() - 3600)
    assert (found.level, "in this machine's future" in found.message) == ("warning", True)


def test_without_a_mesh_the_commands_say_how_to_start_one(tmp_path: Path) -> None:
    for command in (["show", "last"], ["watch", "last"], ["cancel", "last"]):
        done = Terminal(tmp_path).archon(*command)
        assert done.code == 3
        assert done.sentences[0].startswith("error: no mesh is up in ")
        assert "archon up" in done.sentences[1]


def test_doctor_says_what_is_wrong_with_what_it_was_told(tmp_path: Path) -> None:
    terminal = Terminal(
        tmp_path, ARCHON_MODLE="x", ARCHON_PORT="http", ARCHON_MODEL="openai/some", OPENAI_API_KEY="sécret"
    )
    done = terminal.archon("doctor", "--etcd", "127.0.0.1:1", "--registry", "127.0.0.1:2")
    assert done.code == 1
    for said in (
        "no etcd answers at 127.0.0.1:1",
        "the registry at 127.0.0.1:2 doesn't serve",
        "Did you mean ARCHON_MODEL?",
        "environment variable ARCHON_PORT is 'http'",
        "openai/some has no key that can be used",
    ):
        assert said in done.out
    assert "sécret" not in done.out + done.err
    assert not any(tmp_path.iterdir()), "it changed something"


def test_doctor_finds_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        assert terminal.archon("up", "--only", "memory", "--detach").code == 0
        os.kill(terminal.state().pid, signal.SIGKILL)
        wait_until(lambda: not terminal.processes())
        found = {one["check"]: one for one in json.loads(terminal.archon("doctor", "--json").out)}
        assert found["state"]["level"] == "warning"
        assert "is of a mesh that is gone" in found["state"]["message"]
    finally:
        terminal.archon("down")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "zzz"], 4, "'zzz'"),
        (["show", ""], 2, "names no run"),
        (["watch", "zzz"], 4, "'zzz'"),
        (["watch", "last", "--from", "0"], 2, "--from"),
        (["watch", "last", "--from", "100000"], 2, "100000"),
        (["cancel", "zzz", "--wait"], 4, "'zzz'"),
        (["cancel"], 2, "RUN"),
        (["show", "last", "--orchestrator", "127.0.0.1:1"], 3, "127.0.0.1:1 can't be reached"),
        (["watch", "last", "--orchestrator", "127.0.0.1:1"], 3, "127.0.0.1:1 can't be reached"),
        (["doctor", "--registry", "nowhere"], 2, "host:port"),
        (["--completion", "tcsh"], 2, "tcsh"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_an_exit_code(
    terminal: Terminal, finished: str, arguments: list[str], code: int, said: str
) -> None:
    done = terminal.archon(*arguments)
    assert done.code == code
    assert done.sentences[0].startswith("error: ")
    assert said in done.sentences[0]
    assert [line for line in done.sentences[1:] if not line.startswith("hint: ")] == []


def test_an_ambiguous_beginning_of_an_id_is_refused(terminal: Terminal) -> None:
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:  # ids are random: sooner or later two begin alike
        ids = [one["run_id"] for one in json.loads(terminal.archon("runs", "--limit", "100", "--json").out)]
        if twice := [one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1]:
            done = terminal.archon("show", twice[0])
            assert (done.code, "ids that begin with" in done.err) == (2, True)
            return
        terminal.archon("run", "It must be blue.", "--role", "requirements", "--quiet")
    pytest.fail("no two ids begin alike")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(terminal: Terminal, shell: str) -> None:
    done = terminal.archon("--completion", shell)
    assert done.code == 0
    assert f"_ARCHON_COMPLETE=complete_{shell}" in done.out
    if shell == "zsh":
        assert done.out.startswith("#compdef archon\n")


def test_the_bash_script_completes_commands_and_options(terminal: Terminal, tmp_path: Path) -> None:
    program = tmp_path / "archon"
    program.write_text(f'#!/bin/sh\nexec "{ARCHON[0]}" -c "{ARCHON[2]}" "$@"\n')
    program.chmod(0o755)
    script = terminal.archon("--completion", "bash").out
    ask = 'COMP_WORDS=("archon" "$1" "$2"); COMP_CWORD=$3; _archon_completion archon; echo "${COMPREPLY[@]}"'

    def completed(*words: str) -> list[str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--norc", "-c", script + "\n" + ask, "bash", *words],
            env={**terminal.environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return done.stdout.split()

    assert completed("d", "", "1") == ["down", "demo", "doctor"]
    assert "--no-answer" in completed("show", "--", "2")
    assert completed("re", "", "1") == ["respond", "resume"]
    assert "--question" in completed("respond", "--", "2")
