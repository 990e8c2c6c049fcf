"""Commands of one page on runs of another: held runs that are exported, marked, forked and evaluated; unknown runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.small_mesh import small_mesh
from tests.e2e.terminal import Terminal

GOAL = "Build a clock."


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), "requirements", "designer", COLUMNS="80") as terminal:
        for _ in range(2):
            assert terminal.archon("run", GOAL, "--role", "designer", "--quiet").code == 0
        yield terminal


def last(terminal: Terminal) -> str:
    return str(json.loads(terminal.archon("show", "last", "--json").out)["run_id"])


@pytest.fixture(scope="module")
def held(terminal: Terminal) -> str:
    """A run that is held before its second task."""
    roles = ("--role", "requirements", "--role", "designer")
    run_id = terminal.archon("run", GOAL, *roles, "--break-before", "task:designer", "--detach").out.strip()
    assert terminal.archon("debug", run_id, "-c", "wait").code == 0
    return run_id


OF_A_RUN = (
    *("show", "watch", "why", "debug", "export", "explain", "prompts", "playground", "provenance", "messages", "fork"),
    *("rerun", "verify", "trace", "mark", "rate RUN 4", "cancel", "pause", "resume", "respond RUN yes", "share"),
    *("dataset add", "plan show", "plan edit RUN /dev/null", "diff RUN last", "diff last RUN"),
)


@pytest.mark.parametrize("command", OF_A_RUN)
def test_an_unknown_or_ambiguous_run_is_one_sentence(terminal: Terminal, command: str) -> None:
    for run, code, said in (
        ("0" * 32, 4, rf"there is no run '{'0' * 32}'"),
        ("zz", 4, "no run id starts with 'zz'"),
        ("0", 2, r"\d run ids start with '0'"),
    ):
        words = (command if "RUN" in command else f"{command} RUN").replace("RUN", run).split()
        result = terminal.archon(*words)
        assert (result.code, result.out) == (code, ""), result
        assert re.match(f"error: {said}\n", result.err) and len(result.error_lines) <= 2, result


def test_a_held_run_is_exported_replayed_and_stepped_through(terminal: Terminal, held: str, tmp_path: Path) -> None:
    file = tmp_path / "held.archon"
    exported = terminal.archon("export", held, "-o", str(file))
    assert exported.code == 0 and exported.err == "The run goes on: the file has it up to here.\n"
    elsewhere = Terminal(tmp_path / "no-mesh", COLUMNS="80")
    replayed = elsewhere.archon("replay", str(file))
    assert replayed.code == 0 and "the recording ends there: the run had not ended" in replayed.out
    stepped = elsewhere.archon("debug", str(file), "-c", "go last", "-c", "state")
    assert stepped.code == 0 and "held at the breakpoint task:designer" in stepped.out
    assert "cannot be held, or go on" in elsewhere.archon("debug", str(file), "-c", "continue").err


def test_a_held_run_is_marked_shown_and_explained(terminal: Terminal, held: str, tmp_path: Path) -> None:
    assert terminal.archon("mark", held, "--reason", "look at it").code == 0
    shown = terminal.archon("show", held).out
    assert re.search(r"marked +by \w+: look at it\n", shown) and f"To answer: archon debug {held[:12]}" in shown
    explained = " ".join(terminal.archon("explain", held).out.split())
    assert "designer was held at the breakpoint task:designer; it was not released." in explained
    assert "requirements" in terminal.archon("why", held).out
    assert terminal.archon("provenance", held).out.startswith("requirements, event")
    assert "=== requirements, call 1" in terminal.archon("prompts", held, "--no-text").out
    assert "waits for a person" in terminal.archon("trace", held).out
    assert "The runs are the same" in terminal.archon("diff", held, held).out
    for refused, said in (
        (("rate", held, "4"), "has not ended: it can be rated after its end"),
        (("rerun", held), "has not ended: it is input required"),
        (("dataset", "add", held, "--file", str(tmp_path / "cases.jsonl")), "has no answer"),
    ):
        result = terminal.archon(*refused)
        assert (result.code, said in result.err) == (1, True), result


def test_forks_of_a_held_run_and_of_its_fork_replay(terminal: Terminal, held: str, tmp_path: Path) -> None:
    forked = terminal.archon("fork", held)
    assert forked.code == 0 and "reuses requirements" in forked.err, "it has no breakpoint of its own"
    first = last(terminal)
    assert terminal.archon("fork", first, "--set", "designer.input=In Rust", "--quiet").out.endswith("Task: In Rust\n")
    second = last(terminal)
    for run, task in ((first, GOAL), (second, "In Rust")):
        file = tmp_path / f"{run}.archon"
        assert terminal.archon("export", run, "-o", str(file)).code == 0
        replayed = terminal.archon("replay", str(file), "--json")
        document = json.loads(replayed.out)
        assert replayed.code == 0 and document["run_again"]["same"], replayed
        live = terminal.archon("replay", str(file), "--live", "designer")
        assert live.code == 0 and "2 answers bit for bit" in live.out, live
        assert f"Task: {task}" in file_text(terminal, run)
    assert "an input of its own: In Rust" in terminal.archon("provenance", second).out
    tree = terminal.archon("runs", "--tree").out
    assert f"├─ {first[:12]}" in tree or f"└─ {first[:12]}" in tree


def file_text(terminal: Terminal, run: str) -> str:
    """The answer of a run."""
    return str(json.loads(terminal.archon("show", run, "--json").out)["answers"][0]["parts"][0]["text"])


def test_a_released_run_is_executed_again_with_the_input_of_its_breakpoint(terminal: Terminal, held: str) -> None:
    released = terminal.archon("debug", held, "-c", "edit Design it for two.")
    assert released.code == 0 and "the run is completed" in released.out
    again = terminal.archon("rerun", held, "--from", "designer", "--quiet")
    assert again.code == 0 and again.out.endswith("Task: Design it for two.\n"), again
    assert "an input of its own: Design it for two." in terminal.archon("provenance", "last").out
    compared = terminal.archon("diff", held, "last")
    assert compared.code in (0, 1) and "Task:" not in compared.out, "the answers are the same"
