"""`archon fork`, `rerun --from`, `provenance`, `runs --tree`: the page about them prints what it shows."""

from __future__ import annotations

import json
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shown_output import matches, steps
from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import Result, Terminal

PAGE = Path(__file__).parents[2] / "docs" / "forks.md"
EVENT = re.compile(r"event \d+")
WIDTH = 80


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), *PIPELINE) as terminal:
        yield terminal


def test_the_page_prints_what_it_shows(terminal: Terminal) -> None:
    shown = steps(PAGE.read_text())
    for step in shown:
        results = [terminal.archon(*shlex.split(line)[1:]) for line in step.commands.splitlines()]
        printed = "".join(result.out for result in results)
        assert all(result.code == 0 for result in results), results
        # The numbers of events depend on when the shared memory has stored an answer.
        same = matches(EVENT.sub("event N", step.shown), EVENT.sub("event N", printed))
        assert not step.shown or same, f"{step.commands}\n{printed}"
        if "provenance" in step.commands or "--dry-run" in step.commands:
            assert all(len(line) <= WIDTH for line in printed.splitlines())
    assert sum(bool(step.shown) for step in shown) >= 5


def last(terminal: Terminal) -> str:
    return str(json.loads(terminal.archon("show", "last", "--json").out)["run_id"])


@pytest.fixture
def source(terminal: Terminal) -> str:
    assert terminal.archon("run", "Build a todo app.", "--quiet").code == 0
    return last(terminal)


def test_an_edited_answer_says_by_whom(terminal: Terminal, source: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.txt"
    file.write_text("R1. The list is empty at first.")
    result = terminal.archon("rerun", source, "--edit-answer", f"requirements=@{file}")
    assert result.code == 0, result.err
    assert "executes designer, implementer, and reuses requirements." in result.err
    fork = last(terminal)
    document = json.loads(terminal.archon("provenance", fork, "--json").out)
    (edit,) = (each for each in document["sources"] if each["kind"] == "edit")
    assert edit["detail"].endswith(f"of run {source}") and edit["label"]
    text = terminal.archon("provenance", fork, "requirements").out
    assert "gave this answer, in place of event" in text and "the goal" not in text
    assert "└─" in terminal.archon("runs", "--tree").out


def test_a_fork_takes_another_goal_and_other_inputs(terminal: Terminal, source: str) -> None:
    result = terminal.archon("fork", source, "--goal", "Build a chess clock.", "--json")
    assert result.code == 0, result.err
    assert sum('"dispatched"' in line for line in result.out.splitlines()) == 3
    preview = json.loads(
        terminal.archon("fork", source, "--set", "implementer.input=In Rust", "--dry-run", "--json").out
    )
    decisions = {task["role"]: (task["decision"], task["reason"]) for task in preview["tasks"]}
    assert decisions["implementer"] == ("executed", "it receives another input")
    assert decisions["designer"][0] == "reused"
    assert terminal.archon("fork", source, "--set", "implementer.input=In Rust", "--quiet").code == 0
    assert "an input of its own: In Rust" in terminal.archon("provenance", "last").out


def test_a_provenance_is_drawn(terminal: Terminal, source: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.svg"
    assert terminal.archon("provenance", source, "--output", str(file)).code == 0
    root = ElementTree.fromstring(file.read_text())
    drawn = " ".join(text.strip() for text in root.itertext())
    assert all(role in drawn for role in PIPELINE) and "the goal: Build a todo app." in drawn


def refusals(source: str) -> list[tuple[list[str], int, str]]:
    return [
        (["fork", source, "--at", "100000"], 2, "after_seq: is 100,000"),
        (["fork", source, "--set", "designer=x"], 2, "only the input of a task can be set"),
        (["fork", source, "--set", "absent.input=x"], 2, "the run has no task 'absent'"),
        (["fork", source, "--edit-answer", "designer"], 2, "expected TASK=TEXT"),
        (["fork", source, "--edit-answer", "designer=@/nowhere"], 2, "cannot read /nowhere"),
        (["fork", source, "--edit-answer", "designer= "], 2, "has no text"),
        (["rerun", source, "--from", "absent"], 2, "it has requirements, designer, implementer"),
        (["rerun", source, "--from", "designer", "--edit-answer", "designer=x"], 2, "is not executed"),
        (["rerun", source, "--dry-run", "--quiet"], 2, "mutually exclusive"),
        (["provenance", source, "absent"], 4, "has no step, role or task 'absent'"),
        (["provenance", source, "--text", "never said"], 4, "does not contain this text"),
        (["provenance", source, "--format", "dot"], 2, "use text, json or svg"),
        (["provenance", "nothing"], 4, "no run id"),
    ]


def test_bad_input_is_refused_with_the_reason(terminal: Terminal, source: str) -> None:
    for arguments, code, text in refusals(source):
        result: Result = terminal.archon(*arguments)
        assert (result.code, text in result.err) == (code, True), (arguments, result)
