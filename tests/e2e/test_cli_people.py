"""Runs that ask people, and pauses, on the command line: one mesh of real processes, and agents beside it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import ARCHON, PATIENCE, Done, Running, Terminal
from tests.fixtures.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"

CLERK = """
import sys
from archon import AgentServer, Question
agent = AgentServer(sys.argv[1])
@agent.task
async def work(task):
    if not task.inputs:
        task.save(b"begun")
        return Question(f"Which colour\\n  for {task.text}?", checkpoint=b"page 7")
    return f"{task.input_text} on {task.checkpoint.decode()}, attempt {task.attempt}"
agent.run()
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("mesh"))
    try:
        done = terminal.archon("up", "--detach")
        assert done.code == 0, done.err
        with beside(terminal, "-c", CLERK, "clerk"), beside(terminal, "-c", CLERK, "painter"):
            for role in ("clerk", "painter"):
                wait_until(lambda role=role: role in terminal.archon("agents").out, within=PATIENCE)  # type: ignore[misc]
            yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


@contextmanager
def beside(terminal: Terminal, *arguments: str) -> Iterator[None]:
    """An agent that somebody starts beside the mesh, as the README says."""
    registry = terminal.state().address("registry")
    process = subprocess.Popen([sys.executable, *arguments], env={**terminal.environment, "ARCHON_REGISTRY": registry})
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


@contextmanager
def asking(terminal: Terminal, *arguments: str, questions: int = 1) -> Iterator[tuple[str, Running]]:
    """A run that asks; its id, and the command that follows it."""
    with terminal.start("run", *arguments) as running:
        running.until("To answer: ", questions)
        yield last_run(terminal)["run_id"], running


def last_run(terminal: Terminal) -> dict[str, Any]:
    runs: list[dict[str, Any]] = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
    return runs[0]


def is_refused(done: Done, code: int, said: str) -> None:
    """One sentence, and at most a hint."""
    assert (done.code, done.sentences[0][:7]) == (code, "error: "), done
    assert said in done.err, done
    assert [line for line in done.sentences[1:] if not line.startswith("hint: ")] == []


def test_a_run_that_asks_says_what_and_how_to_answer_and_goes_on_with_the_answer(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk") as (run_id, running):
        lines = running.text.splitlines()
        [asks] = [line for line in lines if "asks a person" in line]
        assert asks.endswith("  clerk          asks a person: Which colour for xyz?")
        assert lines[-1].strip() == f'To answer: archon respond {run_id[:12]} --question 1/q1 "..."'
        assert any("leaves a checkpoint of 5 bytes" in line for line in lines)
        said = terminal.archon("respond", run_id[:12], "blue").out
        assert said == f"Answered; run {run_id} goes on.\n"
        assert running.end() == 0
    assert "is answered: blue" in running.text
    assert "blue on page 7, attempt 2" in running.text


def test_show_and_runs_tell_what_is_waited_for_and_json_has_it_as_it_is(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk") as (run_id, running):
        lines = terminal.archon("show", "last").out.splitlines()
        assert lines[0] == f"run {run_id}  input required"
        [clock] = [line for line in lines if line.startswith("  clock ")]
        assert clock.startswith("  clock       waits for a person; its clock stands, ")
        [task] = [line for line in lines if line.startswith("└──")]
        assert "input required  waits for a person's answer  attempt 1  checkpoint of 6 bytes" in task
        assert lines[-4:] == [
            *("clerk asks:", "  Which colour", "    for xyz?"),
            f'To answer: archon respond {run_id[:12]} --question 1/q1 "..."',
        ]
        shown = json.loads(terminal.archon("show", "last", "--json").out)
        [question] = shown["questions"]
        assert (question["input_id"], question["role"]) == (f"{run_id}.1/q1", "clerk")
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
    assert "asked: Which colour for xyz?  answer: red" in shown_after
    assert "To answer" not in shown_after


def test_of_two_questions_the_one_that_is_named_is_answered(terminal: Terminal, tmp_path: Path) -> None:
    two = ("--role", "clerk", "--role", "painter")
    with asking(terminal, "xyz", *two, questions=2) as (run_id, running):
        done = terminal.archon("respond", run_id, "blue")
        is_refused(done, 2, "asks 2 questions")
        assert "1/q1 (clerk: Which colour for xyz?)" in done.err
        assert "2/q1 (painter: Which colour for xyz?)" in done.err
        is_refused(terminal.archon("respond", run_id, "blue", "--question", "3/q1"), 1, "doesn't ask")
        told = terminal.archon("respond", run_id, "blue", "--question", "2/q1", "--request-id", "one").out
        assert told == f"Answered; run {run_id} still asks 1/q1 (clerk: Which colour for xyz?).\n"
        again = ("respond", run_id, "blue", "--question", f"{run_id}.2/q1", "--request-id", "one")
        assert terminal.archon(*again).code == 0
        is_refused(terminal.archon("respond", run_id, "red", *again[3:]), 1, "another answer")
        answer = tmp_path / "answer.txt"
        answer.write_text("green, as always")
        assert terminal.archon("respond", run_id, "--file", str(answer)).code == 0
        assert running.end() == 0
    assert "blue on page 7" in running.text
    assert "green, as always on page 7" in running.text


def test_a_paused_run_stands_until_it_is_resumed(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk") as (run_id, running):
        short = run_id[:12]
        is_paused = f"`archon resume {short}` lets it go on.\n"
        assert terminal.archon("pause", "last").out == f"Run {run_id} is paused; {is_paused}"
        assert terminal.archon("pause", short).out == f"Run {run_id} is paused already; {is_paused}"
        assert terminal.archon("respond", "last", "blue").out == f"Answered; run {run_id} is paused, and {is_paused}"
        assert "is paused; its clock stands" in terminal.archon("show", "last").out
        assert terminal.archon("resume", "last").out == f"Run {run_id} goes on.\n"
        assert running.end() == 0
    assert f"run {run_id} is paused" in running.text
    assert f"run {run_id} goes on" in running.text
    is_refused(terminal.archon("pause", "last"), 1, "has ended")
    is_refused(terminal.archon("resume", "last"), 1, "has ended")
    is_refused(terminal.archon("respond", "last", "blue"), 1, "asks nothing")
    is_refused(terminal.archon("respond", "last", "red", "--question", "1/q1"), 1, "has been answered")


def test_quiet_says_what_is_asked_on_standard_error_alone(terminal: Terminal) -> None:
    with asking(terminal, "xyz", "--role", "clerk", "--quiet") as (run_id, running):
        assert running.text.splitlines()[:3] == ["clerk asks:", "Which colour", "  for xyz?"]
        assert terminal.archon("respond", run_id, "blue").code == 0
        assert running.end() == 0


def test_on_a_terminal_the_question_is_shown_and_the_answer_read_until_it_fits(terminal: Terminal) -> None:
    with beside(terminal, str(EXAMPLES / "approver.py")):
        wait_until(lambda: "approver" in terminal.archon("agents").out, within=PATIENCE)
        with asking(terminal, "Ship it", "--role", "approver") as (run_id, running):
            screen = typed(terminal, ["respond", "last"], {"> ": "perhaps\n", "doesn't fit": "yes\n"})
            assert "approver asks:\r\n  The plan has 2 words. Approve it?\r\n" in screen
            assert f"Answered; run {run_id} goes on." in screen
            assert running.end() == 0
        assert "Approved:" in running.text


def test_the_example_asks_at_the_end_of_a_pipeline_as_the_readme_says(terminal: Terminal) -> None:
    with beside(terminal, str(EXAMPLES / "approver.py")):
        wait_until(lambda: "implementer -> approver" in terminal.archon("graph").out, within=PATIENCE)
        roles = [word for role in ("implementer", "approver") for word in ("--role", role)]
        with asking(terminal, "It must be blue.", *roles) as (_, running):
            is_refused(terminal.archon("respond", "last", "perhaps"), 2, "'perhaps'")
            assert terminal.archon("respond", "last", "no").code == 0
            assert running.end() == 0
        assert "Turned down." in running.text


def test_the_tree_shows_a_question_and_the_clock_that_stands(terminal: Terminal) -> None:
    def answer() -> str:
        assert terminal.archon("respond", "last", "blue").code == 0
        return ""

    screen = typed(terminal, ["run", "xyz", "--role", "clerk"], {"To answer, from another terminal": answer})
    assert "waits for a person; its clock stands" in screen
    assert "stood still for" in screen
    assert "blue on page 7, attempt 2" in screen


def typed(terminal: Terminal, arguments: list[str], typing: dict[str, Any]) -> str:
    """What a terminal shows while a person types each text once the words before it have come; what can be called is,
    and types what it returns. The command must end well."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ARCHON, *arguments],
        env={**terminal.environment, "TERM": "xterm-256color", "COLUMNS": "140"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen, left = b"", dict(typing)
    try:
        while chunk := os.read(ours, 65536):
            screen += chunk
            for words in [words for words in left if words.encode() in screen]:
                what = left.pop(words)
                os.write(ours, (what() if callable(what) else what).encode())
    except OSError:  # how a terminal says that the other side is closed
        pass
    finally:
        os.close(ours)
    assert process.wait(PATIENCE) == 0, screen.decode()
    return screen.decode()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["respond", "last"], 2, "no terminal"),
        (["respond"], 2, "RUN"),
        (["respond", "last", " "], 2, "no answer"),
        (["respond", "last", "-"], 2, "no answer"),
        (["respond", "last", "--file", "/does/not/exist"], 2, "can't be read"),
        (["respond", "zzz", "x"], 4, "'zzz'"),
        (["respond", "last", "x", "--orchestrator", "127.0.0.1:1"], 3, "127.0.0.1:1 can't be reached"),
        (["respond", "last", "x", "--question", "x" * 300], 2, "input_id"),
        (["pause"], 2, "RUN"),
        (["pause", "zzz"], 4, "'zzz'"),
        (["resume", "zzz"], 4, "'zzz'"),
        (["resume", "last", "--orchestrator", "nowhere"], 2, "host:port"),
    ],
)
def test_wrong_use_is_one_sentence_and_an_exit_code(
    terminal: Terminal, arguments: list[str], code: int, said: str
) -> None:
    if not terminal.archon("runs", "--limit", "1").out.startswith("run "):
        assert terminal.archon("run", "It must be blue.", "--role", "requirements", "--quiet").code == 0
    is_refused(terminal.archon(*arguments), code, said)


def test_without_a_mesh_the_commands_say_how_to_start_one(tmp_path: Path) -> None:
    for command in (["respond", "last", "x"], ["pause", "last"], ["resume", "last"]):
        is_refused(Terminal(tmp_path).archon(*command), 3, "no mesh is up in ")
