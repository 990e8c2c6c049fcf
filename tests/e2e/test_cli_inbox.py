"""The inbox and decisions on the command line, on the shared mesh of real processes."""

from __future__ import annotations

import json
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.asking_agents import WRITING
from tests.e2e.terminal import COMMAND, PATIENCE, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.usefixtures("asking_agents")


@contextmanager
def waiting(terminal: Terminal, goal: str) -> Iterator[str]:
    """Starts a run whose answer waits for a person; yields its id."""
    with terminal.start("run", goal, "--role", WRITING) as running:
        running.until("To answer: ")
        (run,) = json.loads(terminal.archon("runs", "--limit", "1", "--json").out)
        yield run["run_id"]


def state(terminal: Terminal, run_id: str) -> str:
    (run,) = [each for each in json.loads(terminal.archon("runs", "--json").out) if each["run_id"] == run_id]
    return str(run["state"])


def test_the_inbox_lists_the_questions_of_all_runs(terminal: Terminal) -> None:
    with waiting(terminal, "tea") as first, waiting(terminal, "coffee") as second:
        result = terminal.archon("inbox")
        assert result.code == 0, result.err
        for run_id, text in ((first, "draft about tea"), (second, "draft about coffee")):
            (line,) = [line for line in result.out.splitlines() if line.startswith(run_id[:12])]
            assert all(word in line for word in (WRITING, "anyone", "15 min", text)), line
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


@pytest.mark.usefixtures("finished")
def test_decisions_exclude_each_other(terminal: Terminal) -> None:
    result = terminal.archon("respond", "last", "--approve", "--reject")
    assert (result.code, "use one of" in result.err) == (2, True)


def test_a_person_answers_one_after_another(terminal: Terminal, tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with waiting(terminal, "cake") as run_id:
        master, slave = pty.openpty()
        try:
            keyboard, environment = Path(os.ttyname(slave)), {**terminal.environment, "COLUMNS": "80"}
            process = fork_server.fork(COMMAND, ["inbox", "--answer"], environment, err, stdin=keyboard, stdout=out)
            os.write(master, b"perhaps\nm\na\n")
            assert process.wait(PATIENCE) == 0, err.read_text()
        finally:
            os.close(master)
            os.close(slave)
        assert out.read_text() == "1 of 1 answered.\n", err.read_text()
        assert "draft about cake" in err.read_text()
        assert "answer with a: approve" in err.read_text()
        assert "modify needs a file" in err.read_text()
        assert max(map(len, err.read_text().splitlines())) <= 80
        wait_until(lambda: state(terminal, run_id).endswith("COMPLETED"), within=PATIENCE)
