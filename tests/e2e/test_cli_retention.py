"""`archon mark`, and commands on a run whose details were removed: the page about retention prints what it shows."""

from __future__ import annotations

import getpass
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shown_output import Step, matches, steps
from tests.e2e.small_mesh import small_mesh
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "retention.md"
RULES = "details: [{keep: forever, marked: true}]\notherwise: 0.1s\n"
REMOVED = re.compile(
    r"error: the details of run [0-9a-f]{32} were removed by retention\n"
    r"hint: `archon show` prints its summary\. ARCHON_COMPACT_AFTER, or a rule of ARCHON_RETENTION, keeps details longer\.\n"
)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("mesh")
    rules = folder / "retention.yaml"
    rules.write_text(RULES)
    with small_mesh(folder, "designer", ARCHON_RETENTION=str(rules)) as terminal:
        yield terminal


def details_removed(terminal: Terminal) -> bool:
    return bool(json.loads(terminal.archon("show", "last", "--json").out).get("details_removed"))


def assert_shown(terminal: Terminal, step: Step) -> None:
    results = [terminal.archon(*shlex.split(line)[1:]) for line in step.commands.splitlines()]
    printed = "".join(result.out + result.err for result in results)
    assert matches(step.shown.replace("by root:", f"by {getpass.getuser()}:"), printed), printed


def test_the_page_prints_what_it_shows(terminal: Terminal) -> None:
    marked, removed = steps(PAGE.read_text())
    assert_shown(terminal, marked)
    assert terminal.archon("mark", "last", "--remove").out.startswith("Removed the marks of run ")
    wait_until(lambda: details_removed(terminal), PATIENCE)
    assert_shown(terminal, removed)


@pytest.fixture(scope="module")
def removed(terminal: Terminal) -> str:
    """A run whose details were removed."""
    assert terminal.archon("run", "Build a map.", "--role", "designer", "--quiet").code == 0
    wait_until(lambda: details_removed(terminal), PATIENCE)
    return str(json.loads(terminal.archon("show", "last", "--json").out)["run_id"])


@pytest.mark.parametrize(
    "command",
    [
        *("why", "watch", "debug", "prompts", "playground", "provenance", "messages"),
        *("fork", "rerun", "verify", "export", "explain --for auditor", "dataset add --expect tools"),
    ],
)
def test_a_command_that_needs_details_says_that_they_were_removed(
    terminal: Terminal, removed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result: Result = terminal.archon(*command.split(), removed)
    assert (result.code, result.out) == (1, "") and REMOVED.fullmatch(result.err), result
    assert list(tmp_path.iterdir()) == []


def test_explain_trace_and_diff_print_what_is_left(terminal: Terminal, removed: str, tmp_path: Path) -> None:
    explained = terminal.archon("explain", removed).out
    assert explained.startswith("The details of the run were removed by retention") and "designer" in explained
    assert "note: the details of this run were removed by retention" in terminal.archon("trace", removed).out
    for options in ([], ["--prompts"]):
        compared = terminal.archon("diff", removed, removed, *options)
        assert compared.code == 0 and compared.out.count("were removed by retention") == 2, compared
    added = terminal.archon("dataset", "add", removed, "--file", str(tmp_path / "cases.jsonl"))
    assert added.code == 0 and "It expects: exact." in added.out
