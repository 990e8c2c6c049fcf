"""The commands that inspect runs and the machine, on the shared mesh of real processes."""

from __future__ import annotations

import getpass
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
from tests.e2e.shared_mesh import GOAL
from tests.e2e.terminal import ARCHON, PATIENCE, Running, Terminal
from tests.fixtures.waiting import wait_until


@contextmanager
def stuck_run(terminal: Terminal) -> Iterator[tuple[str, Running]]:
    """A run whose first role is frozen during the block. Yields its id and the command."""
    pid = terminal.pid("requirements-1")
    os.kill(pid, signal.SIGSTOP)
    try:
        with terminal.start("run", GOAL) as running:
            # On a slow machine the instance is lost before the run begins, and gets no task.
            running.until("requirements   working  on", instead="Waiting for an instance of requirements")
            yield last_run(terminal), running
    finally:
        os.kill(pid, signal.SIGCONT)
        # The orchestrator may have declared the instance lost: wait until it gets tasks again.
        wait_until(lambda: terminal.archon("run", GOAL, "--quiet").code == 0, within=PATIENCE)


def last_run(terminal: Terminal) -> str:
    [run] = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
    return str(run["run_id"])


def test_memory_of_a_run_is_listed_and_printed(terminal: Terminal, finished: str) -> None:
    listed = terminal.archon("memory", "get", "--run", finished[:12])
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["item", "version"],
        *(["designer", "v1"], ["implementer", "v1"], ["requirements", "v1"]),
    ], listed.err
    answer = json.loads(terminal.archon("show", finished, "--json").out)["answers"][0]["parts"][0]["text"]
    assert terminal.archon("memory", "get", "implementer", "--run", finished).out.strip() == answer.strip()
    absent = terminal.archon("memory", "get", "tester", "--run", finished)
    assert (absent.code, absent.error_lines[1]) == (4, "hint: Its items are designer, implementer, requirements.")


def test_memory_of_a_session_is_published_and_cleared(terminal: Terminal) -> None:
    session = ("--session", "of-memory")
    assert terminal.archon("memory", "get", *session).out == "There are no items in of-memory.\n"
    published = terminal.archon("memory", "publish", "designer", "Use SQLite.", *session)
    assert (published.out, published.err) == ("Published version 1 of designer in of-memory.\n", "")
    assert (
        "no role receives this item" in terminal.archon("memory", "publish", "desinger", "-", *session, stdin="x").err
    )
    [designer, _] = json.loads(terminal.archon("memory", "get", "--json", *session).out)
    assert (designer["item"], designer["content"], designer["version"]) == ("designer", "Use SQLite.", 1)
    assert terminal.archon("memory", "clear", *session).out == "Deleted 2 items of of-memory.\n"
    assert terminal.archon("memory", "get", "designer", *session).code == 4
    for wrong in (["clear"], ["clear", "--run", "last", *session], ["publish", "designer", " ", *session]):
        assert terminal.archon("memory", *wrong).code == 2, wrong
    refused = terminal.archon("memory", "clear", *session, "--memory", "127.0.0.1:1")
    assert (refused.code, refused.error_lines[0]) == (3, "error: cannot reach the memory service at 127.0.0.1:1")


def test_show_prints_tasks_and_answer(terminal: Terminal, finished: str) -> None:
    result = terminal.archon("show", finished)
    head, tree, answer = result.out[: result.out.index("├")], *result.out[result.out.index("├") :].split("\n\n", 1)
    assert head.splitlines()[0] == f"run {finished}  completed"
    assert GOAL in head
    assert [line.split()[1] for line in tree.splitlines()] == ["requirements", "designer", "implementer"]
    for line in tree.splitlines():
        assert "completed  on " in line and "attempt 1" in line and "memory v1" in line and "tokens ~" in line
    assert tree.splitlines()[2].endswith("after requirements, designer")
    assert "From requirements: R1. It must sync across devices." in answer
    assert terminal.archon("show", "--no-answer", finished).out == head + tree + ("" if tree.endswith("\n") else "\n")


def test_show_accepts_a_prefix_and_prints_json(terminal: Terminal, finished: str) -> None:
    run = json.loads(terminal.archon("show", finished[:12], "--json").out)
    assert (run["run_id"], run["state"]) == (finished, "TASK_STATE_COMPLETED")
    assert [task["role"] for task in run["tasks"]] == ["requirements", "designer", "implementer"]
    assert run["answers"][0]["role"] == "implementer"
    assert "answers" not in json.loads(terminal.archon("show", finished, "--json", "--no-answer").out)


def test_watch_replays_an_ended_run_from_any_event(terminal: Terminal, finished: str) -> None:
    whole = terminal.archon("watch", finished, "--json")
    events = [json.loads(line) for line in whole.out.splitlines()]
    assert (whole.code, whole.err) == (0, "")
    assert [int(event["seq"]) for event in events] == list(range(1, len(events) + 1))
    some = [json.loads(line) for line in terminal.archon("watch", finished, "--json", "--from", "5").out.splitlines()]
    assert some == events[4:]
    lines = terminal.archon("watch", finished, "--from", str(len(events)))
    assert [line.split("  ")[-1] for line in lines.error_lines] == [f"run {finished} completed"]
    assert "From requirements: R1. It must sync across devices." in lines.out


def test_watch_follows_another_run_and_ctrl_c_detaches(terminal: Terminal) -> None:
    with stuck_run(terminal) as (run_id, running):
        with terminal.start("watch", run_id) as watching:
            watching.until("requirements   working  on", instead="Waiting for an instance of requirements")
            watching.interrupt()
            assert watching.end() == 130
        with terminal.start("watch", run_id, "--json") as watching:
            watching.until("submitted")
            assert terminal.archon("cancel", run_id, "--reason", "enough of it", "--wait").code == 0
            assert watching.end() == 1
        assert json.loads(watching.text.splitlines()[-1])["run_state"]["state"] == "TASK_STATE_CANCELED"
        assert running.end() == 1
    assert "enough of it" in running.text


@pytest.mark.search
def test_a_run_that_waits_for_an_instance_says_why(terminal: Terminal) -> None:
    with stuck_run(terminal) as (run_id, running):
        running.until("Waiting for an instance of requirements with room (the only one is not reachable).")
        assert terminal.archon("cancel", run_id).code == 0
        running.end()


def test_show_prints_wait_reasons_and_cancel_ends_the_run(terminal: Terminal) -> None:
    with stuck_run(terminal) as (run_id, _):
        lines = terminal.archon("show", "last").out.splitlines()
        assert lines[0].startswith(f"run {run_id}  ")
        assert any("designer" in line and "waiting for the answer of requirements" in line for line in lines)
        assert terminal.archon("cancel", run_id[:16], "--wait").out == f"Run {run_id} has ended: canceled.\n"
        assert terminal.archon("cancel", run_id).out == f"Run {run_id} has already ended: canceled.\n"
        assert terminal.archon("watch", run_id).code == 1


def test_doctor_reports_a_healthy_mesh(terminal: Terminal) -> None:
    def healthy() -> bool:  # registrations of agents that other tests have killed end with their leases
        return "no answer" not in terminal.archon("doctor", "--json").out

    wait_until(healthy, within=PATIENCE)
    result = terminal.archon("doctor", "--json")
    findings = {finding["check"]: finding for finding in json.loads(result.out)}
    assert result.code == 0
    for check in ("python", "packages", "sqlite", "etcd program", "etcd", "state", "mesh", "agents", "clock", "model"):
        assert findings[check]["level"] == "ok", findings[check]
    assert f"{len(terminal.state().processes)} processes" in findings["mesh"]["message"]
    instances = json.loads(terminal.archon("agents", "--json").out)
    assert f"{len(instances)} registered" in findings["agents"]["message"]


def test_doctor_reports_a_silent_process_and_its_log(terminal: Terminal) -> None:
    os.kill(terminal.pid("designer-1"), signal.SIGSTOP)
    try:
        result = terminal.archon("doctor")
    finally:
        os.kill(terminal.pid("designer-1"), signal.SIGCONT)
    assert result.code == 1
    [line] = [line for line in result.out.splitlines() if line.startswith("problem")]
    assert "designer-1 does not serve" in line
    assert str(terminal.home / "logs" / "designer-1.log") in result.out
    assert "registered, but no answer: designer-" in result.out
    assert result.out.splitlines()[-1].startswith("1 problem")


@pytest.mark.usefixtures("finished")
async def test_doctor_reports_runs_in_the_future(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_HOME", str(terminal.home))
    orchestrator = terminal.state().address("orchestrator")
    assert await clock.check_events(orchestrator) == []
    [finding] = await clock.check_events(orchestrator, now=time.time() - 3600)
    assert (finding.level, "in the future" in finding.message) == ("warning", True)


def test_doctor_reports_invalid_options_and_variables(tmp_path: Path) -> None:
    terminal = Terminal(
        tmp_path, ARCHON_MODLE="x", ARCHON_PORT="http", ARCHON_MODEL="openai/some", OPENAI_API_KEY="sécret"
    )
    result = terminal.archon("doctor", "--etcd", "127.0.0.1:1", "--registry", "127.0.0.1:2")
    assert result.code == 1
    for text in (
        "no etcd answers at 127.0.0.1:1",
        "the registry at 127.0.0.1:2 does not serve",
        "Did you mean ARCHON_MODEL?",
        "environment variable ARCHON_PORT is 'http'",
        "openai/some has no usable key",
    ):
        assert text in result.out
    assert "sécret" not in result.out + result.err
    assert not any(tmp_path.iterdir()), "doctor must not change anything"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["show", "zzz"], 4, "'zzz'"),
        (["show", ""], 2, "the run id is empty"),
        (["watch", "zzz"], 4, "'zzz'"),
        (["watch", "last", "--from", "0"], 2, "--from"),
        (["watch", "last", "--from", "100000"], 2, "100000"),
        (["cancel", "zzz", "--wait"], 4, "'zzz'"),
        (["cancel"], 2, "RUN"),
        (["show", "last", "--orchestrator", "127.0.0.1:1"], 3, "cannot reach the orchestrator at 127.0.0.1:1"),
        (["watch", "last", "--orchestrator", "127.0.0.1:1"], 3, "cannot reach the orchestrator at 127.0.0.1:1"),
        (["doctor", "--registry", "nowhere"], 2, "host:port"),
        (["--completion", "tcsh"], 2, "tcsh"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(
    terminal: Terminal, finished: str, arguments: list[str], code: int, text: str
) -> None:
    result = terminal.archon(*arguments)
    assert result.code == code
    assert result.error_lines[0].startswith("error: ")
    assert text in result.error_lines[0]
    assert [line for line in result.error_lines[1:] if not line.startswith("hint: ")] == []


def test_ambiguous_prefix_of_an_id_is_rejected(terminal: Terminal) -> None:
    for _ in range(17):  # ids are hexadecimal: two of 17 start with the same character
        ids = [run["run_id"] for run in json.loads(terminal.archon("runs", "--limit", "100", "--json").out)]
        if twice := [run_id[0] for run_id in ids if sum(other[0] == run_id[0] for other in ids) > 1]:
            result = terminal.archon("show", twice[0])
            assert (result.code, "run ids start with" in result.err) == (2, True)
            candidate = result.error_lines[1].removeprefix("hint: Use a longer prefix: ").split(",")[0].rstrip(".")
            assert terminal.archon("show", candidate).code == 0
            return
        terminal.archon("run", "It must be blue.", "--role", "requirements", "--detach")
    pytest.fail("no two ids start with the same character")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(terminal: Terminal, shell: str) -> None:
    result = terminal.archon("--completion", shell)
    assert result.code == 0
    assert f"_ARCHON_COMPLETE=complete_{shell}" in result.out
    if shell == "zsh":
        assert result.out.startswith("#compdef archon\n")


def test_the_bash_script_completes_commands_and_options(terminal: Terminal, tmp_path: Path) -> None:
    program = tmp_path / "archon"
    program.write_text(f'#!/bin/sh\nexec "{ARCHON[0]}" -c "{ARCHON[2]}" "$@"\n')
    program.chmod(0o755)
    script = terminal.archon("--completion", "bash").out
    ask = 'COMP_WORDS=("archon" "$1" "$2"); COMP_CWORD=$3; _archon_completion archon; echo "${COMPREPLY[@]}"'

    def completed(*words: str) -> list[str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        result = subprocess.run(
            ["bash", "--norc", "-c", script + "\n" + ask, "bash", *words],
            env={**terminal.environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return result.stdout.split()

    assert completed("re", "", "1") == ["restart", "respond", "resume", "rerun", "replay"]
    assert "--no-answer" in completed("show", "--", "2")


def test_a_run_is_rated_and_the_records_have_it(terminal: Terminal, finished: str) -> None:
    rated = terminal.archon("rate", finished[:12], "4", "--comment", "useful")
    assert (rated.code, rated.out) == (0, f"Rated run {finished}: 4 of 5.\n"), rated.err
    assert f"  rated       4 of 5 by {getpass.getuser()}: useful" in terminal.archon("show", finished).out.splitlines()
    shown = json.loads(terminal.archon("show", finished, "--json").out)
    assert [(rating["stars"], rating["comment"]) for rating in shown["ratings"]] == [(4, "useful")]
    listed = terminal.archon("agents", "--metrics").out.splitlines()
    header = ["role", "instance", "tasks", "success", "mean", "p95", "cost", "stars", "bids", "kept", "won"]
    assert listed[0].split() == header
    roles = [line.split()[0] for line in listed[1:] if line.split()[1] == "all"]
    assert {"designer", "implementer", "requirements"} <= set(roles)
    documents = json.loads(terminal.archon("agents", "--metrics", "--json").out)
    assert any(each["role"] == "designer" and each["instance_id"] and each["ratings"] > 0.9 for each in documents)


def test_stars_out_of_range_and_unknown_runs_are_refused(terminal: Terminal, finished: str) -> None:
    assert terminal.archon("rate", finished, "6").code == 2
    unknown = terminal.archon("rate", "0" * 32, "3")
    assert unknown.code == 4 and "there is no run" in unknown.err


def test_why_explains_each_dispatch_of_a_run(terminal: Terminal, finished: str) -> None:
    shown = terminal.archon("why", finished[:12])
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert {"requirements  completed", "designer  completed", "implementer  completed"} <= set(lines)
    assert any(line.startswith("  attempt 1  on designer-") for line in lines)
    assert all(len(line) <= 80 for line in lines)
    (one,) = json.loads(terminal.archon("why", finished, "designer", "--json").out)
    assert one["role"] == "designer" and len(one["attempts"]) == 1
    unknown = terminal.archon("why", finished, "cook")
    assert (unknown.code, unknown.error_lines[0]) == (4, "error: the run has no step, role or task 'cook'")
