"""`archon debug`: the page about it prints what it shows; stepping by standard input and on a terminal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shown_output import constant, steps
from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import Result, Screen, Terminal

PAGE = Path(__file__).parents[2] / "docs" / "debugging.md"
NUMBERS = re.compile(r"\b(\d\d:\d\d:\d\d\.\d+|events? \d+|v\d+|\d+ (completed|submitted|working))\b|(?m:^ *\d+(?= ))")
WIDTH = 80


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), *PIPELINE) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def run_file(terminal: Terminal, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("file") / "run.archon"
    assert terminal.archon("run", "Build a todo app. It must sync.", "--quiet").code == 0
    assert terminal.archon("export", "last", "-o", str(file)).code == 0
    return str(file)


def words(text: str) -> str:
    """Returns the words of an output: numbers of events, times and the breaks of lines differ from run to run."""
    return " ".join(NUMBERS.sub("N", constant(text)).replace("not stored yet", "N").split())


def test_the_page_prints_what_it_shows(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for step in steps(PAGE.read_text()):
        results = [terminal.archon(*shlex.split(line)[1:]) for line in step.commands.splitlines()]
        assert all(result.code == 0 for result in results), results
        printed = results[-1].out
        assert words(step.shown.removeprefix("...\n")) == words(printed), printed
        assert all(len(line) <= WIDTH for line in printed.splitlines())


def test_standard_input_drives_it_without_a_mesh(run_file: str, tmp_path: Path) -> None:
    elsewhere = Terminal(tmp_path / "no-mesh")
    typed = "next role implementer\n\nmemory\nnext result\nprompt\nback\n\n/sync\n?todo\ngo 3\nfailure\nquit\nnext\n"
    stepped = elsewhere.archon("debug", run_file, stdin=typed)
    assert stepped.code == 0, stepped.err
    commands = [line.removeprefix("> ") for line in stepped.out.splitlines() if line.startswith(">")]
    assert commands == typed.split("\n")[:-2], "and an empty line repeats the movement"
    assert "answers of requirements (event" in stepped.out and "Nothing failed in this run." in stepped.out
    assert "=== implementer, call 1, attempt 1: model offline" in stepped.out


def test_a_state_is_printed_as_json(run_file: str, tmp_path: Path) -> None:
    elsewhere = Terminal(tmp_path / "no-mesh")
    last = json.loads(elsewhere.archon("debug", run_file, "--json").out)
    assert last["state"]["state"] == "completed" and last["seq"] == last["last_seq"]
    kinds = {}
    for seq in range(1, last["last_seq"] + 1):
        document = json.loads(elsewhere.archon("debug", run_file, "--json", "--at", str(seq)).out)
        kinds[document["event"]["type"], document["event"]["data"].get("role", "")] = document
    task = kinds["result", "implementer"]["task"]
    assert [read["role"] for read in task["memory"]] == ["requirements", "designer"]
    assert task["sent"]["input"][0]["text"] == "Build a todo app. It must sync."
    assert [frame["name"] for frame in task["frames"]] == ["AssignTask", "CallRecord", "TaskResult"]
    assert task["calls"][0]["request"]["messages"]


def refusals(run_file: str) -> list[tuple[list[str], int, str]]:
    return [
        ([run_file, "-c", "forward"], 2, "unknown command 'forward'"),
        ([run_file, "-c", "next week"], 2, "cannot go to 'week'"),
        ([run_file, "-c", "go 1000"], 4, "there is no event 1000"),
        ([run_file, "-c", "next role writer"], 4, "has no role 'writer'"),
        ([run_file, "-c", "prompt designer"], 4, "has not been dispatched up to this event"),
        ([run_file, "-c", "/never said"], 4, "no event after this one has 'never said'"),
        ([run_file, "-c", "memory"], 2, "this event concerns the run"),
        ([run_file, "-c", 'search "half'], 2, "cannot read the line"),
        ([run_file, "-c", "continue"], 2, "was read from a file"),
        ([run_file, "--break-before", "model"], 2, "cannot be held"),
        ([run_file, "--at", "1000"], 4, "there is no event 1000"),
        ([run_file, "--json", "-c", "next"], 2, "goes with no --command"),
        (["/nowhere.archon"], 4, "cannot read /nowhere.archon"),
        (["last", "--break-before", "toll:x"], 2, "is no breakpoint"),
        (["last", "-c", "edit x"], 4, "is not held at a breakpoint"),
        (["last", "-c", "delete model"], 4, "has no breakpoint model"),
    ]


def test_wrong_input_is_refused_with_the_reason(terminal: Terminal, run_file: str) -> None:
    assert terminal.archon("run", "Build a clock.", "--quiet").code == 0
    for arguments, code, text in refusals(run_file):
        result: Result = terminal.archon("debug", *arguments)
        assert (result.code, text in result.err.replace("\n", " ")) == (code, True), (arguments, result)


def test_a_terminal_says_mistakes_and_goes_on(terminal: Terminal, run_file: str) -> None:
    typing = {") ": "nxt\n", "`help` lists the commands.": "n\n", "task created": "q\n"}
    code, text = terminal.on_screen("debug", run_file, columns=WIDTH, typing=typing)
    assert code == 0 and "unknown command 'nxt'" in text and "Traceback" not in text


def test_ctrl_c_at_the_prompt_ends_it(terminal: Terminal, run_file: str) -> None:
    environment = {**terminal.environment, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    with Screen(["debug", run_file], environment) as screen:
        screen.until(") ")
        screen.type("go 3")
        screen.until("go 3")
        assert screen.interrupt_at_prompt() == 130
        assert screen.text.endswith("\n") and "Traceback" not in screen.text


def test_a_live_run_is_held_answered_and_let_go_on(terminal: Terminal) -> None:
    started = terminal.archon("run", "Build a clock.", "--break-before", "model:implementer", "--detach")
    run_id = started.out.strip()
    debugged = terminal.archon("debug", run_id, stdin="wait\nbreak task:x\nbreaks\ndelete\nanswer Nothing.\ncontinue\n")
    assert debugged.code == 0, debugged.err
    assert "model:implementer\ntask:x\nheld, implementer (3/m1):" in debugged.out
    assert "no breakpoints" in debugged.out and "The run has ended." in debugged.out
    shown = json.loads(terminal.archon("show", run_id, "--json").out)
    assert shown["answers"][0]["parts"][0]["text"] == "Nothing."
