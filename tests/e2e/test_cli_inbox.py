"""The inbox and decisions on the command line, with a mesh of real processes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import ARCHON, PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

RULES = "rules:\n  - {trigger: checkpoint, role: writer, name: review, timeout: 900}\n"

WRITER = """
from archon import AgentServer
agent = AgentServer("writer")
@agent.task
async def work(task):
    return f"draft about {task.text}"
agent.run()
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A mesh with a rule, and a role to which it applies."""
    home = tmp_path_factory.mktemp("inbox")
    (home / "rules.yaml").write_text(RULES)
    terminal = Terminal(home)
    terminal.environment["ARCHON_RULES"] = str(home / "rules.yaml")
    try:
        result = terminal.archon("up", "--detach")
        assert result.code == 0, result.err
        registry = terminal.state().address("registry")
        command = [sys.executable, "-c", WRITER]
        process = subprocess.Popen(command, env={**terminal.environment, "ARCHON_REGISTRY": registry})
        try:
            wait_until(lambda: "writer" in terminal.archon("agents").out, within=PATIENCE)
            yield terminal
        finally:
            process.terminate()
            process.wait(PATIENCE)
    finally:
        terminal.archon("down")


@contextmanager
def waiting(terminal: Terminal, goal: str) -> Iterator[str]:
    """Starts a run whose answer waits for a person; yields its id."""
    with terminal.start("run", goal, "--role", "writer") as running:
        running.until("To answer: ")
        runs = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
        yield runs[0]["run_id"]


def state(terminal: Terminal, run_id: str) -> str:
    (run,) = [each for each in json.loads(terminal.archon("runs", "--json").out) if each["run_id"] == run_id]
    return str(run["state"])


def test_the_inbox_lists_the_questions_of_all_runs(terminal: Terminal) -> None:
    with waiting(terminal, "tea") as first, waiting(terminal, "coffee") as second:
        result = terminal.archon("inbox")
        assert result.code == 0, result.err
        for run_id, text in ((first, "draft about tea"), (second, "draft about coffee")):
            (line,) = [line for line in result.out.splitlines() if line.startswith(run_id[:12])]
            assert all(word in line for word in ("writer", "anyone", "15 min", text)), line
        listed = json.loads(terminal.archon("inbox", "--json").out)
        assert {question["run_id"] for question in listed} == {first, second}
        result = terminal.archon("respond", first, "--approve")
        assert (result.code, result.out.startswith("Answer accepted.")) == (0, True), result.err
        result = terminal.archon("respond", second, "--reject", "too bitter")
        assert result.code == 0, result.err
        wait_until(lambda: state(terminal, first).endswith("COMPLETED"), within=PATIENCE)
        wait_until(lambda: state(terminal, second).endswith("FAILED"), within=PATIENCE)
        assert "rejected" in terminal.archon("show", second).out
    assert terminal.archon("inbox").out.strip() == "No run asks a question."


def test_a_file_replaces_what_waits(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a better text")
    with waiting(terminal, "milk") as run_id:
        result = terminal.archon("respond", run_id, "--modify", str(tmp_path / "text.txt"))
        assert result.code == 0, result.err
        wait_until(lambda: "a better text" in terminal.archon("show", run_id).out, within=PATIENCE)


def test_decisions_exclude_each_other(terminal: Terminal) -> None:
    result = terminal.archon("respond", "last", "--approve", "--reject")
    assert (result.code, "use one of" in result.err) == (2, True)


def test_a_person_answers_one_after_another(terminal: Terminal) -> None:
    with waiting(terminal, "cake") as run_id:
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*ARCHON, "inbox", "--answer"],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**terminal.environment, "COLUMNS": "80"},
        )
        os.close(slave)
        try:
            os.write(master, b"perhaps\nm\na\n")
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            os.close(master)
        assert out.decode().strip() == "1 of 1 answered.", err.decode()
        assert "draft about cake" in err.decode()
        assert "answer with a: approve" in err.decode()
        assert "modify needs a file" in err.decode()
        assert max(map(len, err.decode().splitlines())) <= 80
        wait_until(lambda: state(terminal, run_id).endswith("COMPLETED"), within=PATIENCE)
