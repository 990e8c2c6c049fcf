"""Questions and pauses on the command line, on the shared mesh of real processes and with separate agents."""

from __future__ import annotations

import getpass
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import PATIENCE, Result, Running, Screen, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.usefixtures("asking_agents")


@contextmanager
def approver(terminal: Terminal, *, program: bool = False) -> Iterator[None]:
    """Starts the agent of the README, as a `program` as shown there, or in a fork."""
    environment = {**terminal.environment, "ARCHON_REGISTRY": terminal.state().registry}
    process = (
        subprocess.Popen([sys.executable, str(EXAMPLES / "approver.py")], env=environment)
        if program
        else fork_server.fork("examples.approver", (), environment, terminal.home / "approver.log")
    )
    try:
        wait_until(lambda: "implementer -> approver" in terminal.archon("graph").out, within=PATIENCE)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    wait_until(lambda: "approver" not in terminal.archon("graph").out, within=PATIENCE)


@contextmanager
def asking(
    terminal: Terminal, *arguments: str, questions: int = 1, program: bool = False
) -> Iterator[tuple[str, Running]]:
    """Starts a run that asks questions; yields its id and the command that follows it."""
    with terminal.start("run", *arguments, program=program) as running:
        running.until("To answer: ", questions)
        yield last_run(terminal)["run_id"], running


def last_run(terminal: Terminal) -> dict[str, Any]:
    runs: list[dict[str, Any]] = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
    return runs[0]


def assert_error(result: Result, code: int, text: str) -> None:
    """Asserts an error of one line, and at most a hint."""
    assert (result.code, result.error_lines[0][:7]) == (code, "error: "), result
    assert text in result.err, result
    assert [line for line in result.error_lines[1:] if not line.startswith("hint: ")] == []


def test_run_prints_its_question_and_continues_when_answered(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk", program=True) as (run_id, running):
        lines = running.text.splitlines()
        [line] = [line for line in lines if "question: " in line]
        assert line.endswith("  clerk          question: Which colour for xyz?")
        assert lines[-1].strip() == f'To answer: archon respond {run_id[:12]} --question 1/q1 "..."'
        assert any("saved a checkpoint of 5 bytes" in line for line in lines)
        accepted = terminal.archon("respond", run_id[:12], "blue").out
        assert accepted == f"Answer accepted. Run {run_id} continues.\n"
        assert running.end() == 0
    assert f"answered by {getpass.getuser()}: blue" in running.text
    assert "blue on page 7, attempt 2" in running.text


def test_show_and_runs_print_the_pending_question(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk") as (run_id, running):
        lines = terminal.archon("show", "last").out.splitlines()
        assert lines[0] == f"run {run_id}  input required"
        [clock] = [line for line in lines if line.startswith("  clock ")]
        assert clock.startswith("  clock       waiting for input; clock stopped for ")
        [task] = [line for line in lines if line.startswith("└──")]
        assert "input required  waiting for " in task and "  attempt 1  checkpoint of 6 bytes" in task
        assert lines[-4:] == [
            *("clerk asks:", "  Which colour", "    for xyz?"),
            f'To answer: archon respond {run_id[:12]} --question 1/q1 "..."',
        ]
        shown = json.loads(terminal.archon("show", "last", "--json").out)
        [question] = shown["questions"]
        assert (question["input_id"], question["role"]) == (f"{run_id}.1/q1", "clerk")
        traced = json.loads(terminal.archon("trace", "last", "--json").out)
        assert (traced["state"], traced["spans"][-1]["detail"]) == ("input required", "for a person")
        assert last_run(terminal)["state"] == "TASK_STATE_INPUT_REQUIRED"
        [row] = terminal.archon("runs", "--limit", "1").out.splitlines()[1:]
        assert "input required" in row
        with terminal.start("watch", "last", "--json") as watching:
            watching.until("input_requested")
            assert terminal.archon("respond", "last", "-", stdin="red").code == 0
            assert watching.end() == 0
        assert {"checkpoint", "input_requested", "input_given"} <= {
            kind for line in watching.text.splitlines() for kind in json.loads(line)
        }
        assert running.end() == 0
    shown_after = terminal.archon("show", "last").out
    assert "question: Which colour for xyz?  answer: red" in shown_after
    assert "To answer" not in shown_after


def test_question_option_selects_one_of_two_questions(terminal: Terminal, tmp_path: Path) -> None:
    two = ("--role", "clerk", "--role", "painter")
    with asking(terminal, "xyz", *two, questions=2) as (run_id, running):
        result = terminal.archon("respond", run_id, "blue")
        assert_error(result, 2, "asks 2 questions")
        assert "1/q1 (clerk: Which colour for xyz?)" in result.err
        assert "2/q1 (painter: Which colour for xyz?)" in result.err
        assert_error(terminal.archon("respond", run_id, "blue", "--question", "3/q1"), 1, "3/q1")
        accepted = terminal.archon("respond", run_id, "blue", "--question", "2/q1", "--request-id", "one").out
        assert accepted == f"Answer accepted. Run {run_id} still waits for 1/q1 (clerk: Which colour for xyz?).\n"
        again = ("respond", run_id, "blue", "--question", f"{run_id}.2/q1", "--request-id", "one")
        assert terminal.archon(*again).code == 0
        assert_error(terminal.archon("respond", run_id, "red", *again[3:]), 1, "another answer")
        answer = tmp_path / "answer.txt"
        answer.write_text("green, as always")
        assert terminal.archon("respond", run_id, "--file", str(answer)).code == 0
        assert running.end() == 0
    assert "blue on page 7" in running.text
    assert "green, as always on page 7" in running.text


def test_paused_run_continues_after_resume(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk") as (run_id, running):
        short = run_id[:12]
        hint = f"Resume it with `archon resume {short}`.\n"
        assert terminal.archon("pause", "last").out == f"Run {run_id} is paused. {hint}"
        assert terminal.archon("pause", short).out == f"Run {run_id} is already paused. {hint}"
        accepted = f"Answer accepted. Run {run_id} is paused: `archon resume {short}` resumes it.\n"
        assert terminal.archon("respond", "last", "blue").out == accepted
        assert "paused; clock stopped" in terminal.archon("show", "last").out
        assert terminal.archon("resume", "last").out == f"Run {run_id} is resumed.\n"
        assert running.end() == 0
    assert f"run {run_id} paused" in running.text
    assert f"run {run_id} resumed" in running.text
    traced = json.loads(terminal.archon("trace", "last", "--json").out)
    assert [mark["text"] for mark in traced["marks"]] == ["paused", "resumed"]
    waits = [span["detail"] for span in traced["spans"] if span["kind"] == "waiting"]
    assert waits == ["for a person", "for the run to be resumed"]
    assert traced["time"]["waiting"]["critical_path_seconds"] > 0
    assert_error(terminal.archon("pause", "last"), 1, "has ended")
    assert_error(terminal.archon("resume", "last"), 1, "has ended")
    assert_error(terminal.archon("respond", "last", "blue"), 1, "asks no question")
    assert_error(terminal.archon("respond", "last", "red", "--question", "1/q1"), 1, "has been answered")


def test_quiet_prints_questions_to_standard_error(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk", "--quiet") as (run_id, running):
        assert running.text.splitlines()[:3] == ["clerk asks:", "Which colour", "  for xyz?"]
        assert terminal.archon("respond", run_id, "blue").code == 0
        assert running.end() == 0


def test_terminal_prompts_until_the_answer_is_valid(terminal: Terminal) -> None:
    with approver(terminal):
        with asking(terminal, "Ship it", "--role", "approver") as (run_id, running):
            answers = {"> ": "perhaps\n", "'perhaps'": "yes\n"}
            code, screen = terminal.on_screen("respond", run_id, columns=140, typing=answers)
            assert code == 0, screen
            assert "approver asks:\r\n  The plan has 2 words. Approve it?\r\n" in screen
            assert f"Answer accepted. Run {run_id} continues." in screen
            assert running.end() == 0
        assert "Approved:" in running.text


def test_approver_example_asks_at_the_end_of_a_pipeline(terminal: Terminal) -> None:
    with approver(terminal, program=True):
        roles = [word for role in ("implementer", "approver") for word in ("--role", role)]
        with asking(terminal, "It must be blue.", *roles) as (_, running):
            assert_error(terminal.archon("respond", "last", "perhaps"), 2, "'perhaps'")
            assert terminal.archon("respond", "last", "no").code == 0
            assert running.end() == 0
        assert "Turned down." in running.text


def test_tree_shows_question_and_stopped_clock(terminal: Terminal) -> None:
    def answer() -> str:
        assert terminal.archon("respond", "last", "blue").code == 0
        return ""

    typing = {"To answer from another terminal": answer}
    code, screen = terminal.on_screen("run", "xyz", "--role", "clerk", columns=140, typing=typing)
    assert code == 0, screen
    assert "waiting for input; clock stopped" in screen
    assert "clock was stopped for" in screen
    assert "blue on page 7, attempt 2" in screen


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["respond", "last"], 2, "missing answer"),
        (["respond"], 2, "RUN"),
        (["respond", "last", " "], 2, "missing answer"),
        (["respond", "last", "-"], 2, "missing answer"),
        (["respond", "last", "--file", "/does/not/exist"], 2, "cannot read"),
        (["respond", "zzz", "x"], 4, "'zzz'"),
        (["respond", "last", "x", "--orchestrator", "127.0.0.1:1"], 3, "cannot reach the orchestrator at 127.0.0.1:1"),
        (["respond", "last", "x", "--question", "x" * 300], 2, "input_id"),
        (["pause"], 2, "RUN"),
        (["pause", "zzz"], 4, "'zzz'"),
        (["resume", "zzz"], 4, "'zzz'"),
        (["resume", "last", "--orchestrator", "nowhere"], 2, "host:port"),
    ],
)
@pytest.mark.usefixtures("finished")
def test_errors_are_one_line_with_an_exit_code(terminal: Terminal, arguments: list[str], code: int, text: str) -> None:
    assert_error(terminal.archon(*arguments), code, text)


def test_commands_without_a_mesh_print_how_to_start_one(tmp_path: Path) -> None:
    for command in (["respond", "last", "x"], ["pause", "last"], ["resume", "last"]):
        assert_error(Terminal(tmp_path).archon(*command), 3, "no mesh is running in ")


def test_chat_with_a_role_asks_the_person_who_chats(terminal: Terminal) -> None:
    with Screen(["chat", "clerk"], terminal.environment) as screen:
        screen.until("you: ")
        screen.type("the wall\n")
        screen.until("clerk asks:")
        screen.until("for the wall?")
        screen.until("> ")
        screen.type("blue\n")
        screen.until("blue on page 7, attempt 2")
        screen.until("you: ", times=2)
        screen.type("the door\n")
        screen.until("the door?")
        accepted = terminal.archon("respond", "last", "red").out
        assert accepted.startswith("Answer accepted.")
        screen.until("red on page 7, attempt 2")
        screen.until("you: ", times=3)
        screen.type("\n")
        assert screen.end() == 0


def test_a_chat_whose_input_ends_before_the_answer_cancels_its_run(terminal: Terminal) -> None:
    done = terminal.fork("chat", "clerk", stdin="the wall\n")
    assert done.code == 1
    assert "the input ended before the question had its answer" in done.err
    assert last_run(terminal)["state"] == "TASK_STATE_CANCELED"


def test_an_identity_needs_a_token_of_the_mesh(terminal: Terminal, tmp_path: Path) -> None:
    elsewhere = Terminal(tmp_path, ARCHON_ORCHESTRATOR=terminal.state().address("orchestrator"))
    for command in (("respond", "last", "yes"), ("inbox", "--answer"), ("chat", "clerk")):
        assert_error(elsewhere.archon(*command, "--as", "ann"), 2, "--as needs a token of the mesh")
    viewer = terminal.archon("token", "--kind", "viewer").out.strip()
    elsewhere.environment["ARCHON_TOKEN"] = viewer
    assert_error(elsewhere.archon("inbox", "--as", "ann"), 2, "--as needs a token of the mesh that may act for others")


@pytest.mark.slow
def test_an_approver_answers_as_the_identity_that_the_token_vouches_for(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n  - {trigger: checkpoint, role: writer, name: review, approvers: [ann], timeout: 900}\n")
    terminal = Terminal(tmp_path / "home", ARCHON_RULES=str(rules))
    try:
        up = terminal.archon("up", "--detach", "--only", "registry,memory,orchestrator,writer")
        assert up.code == 0, up.err
        with asking(terminal, "Write a poem", "--role", "writer") as (run_id, running):
            for refused in ((), ("--as", "bob")):
                assert_error(terminal.archon("respond", run_id, "--approve", *refused), 1, "approver")
            assert terminal.archon("respond", run_id, "--approve", "--as", "ann").code == 0
            assert running.end() == 0
    finally:
        terminal.archon("down")
        assert not terminal.processes()
