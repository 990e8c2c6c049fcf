"""Every command of docs/tutorial.md runs in order, over real processes, and prints what the page shows; so does the
first command of the README.

The environment of step 1 is that of the tests. Ports differ from those of a user: other tests run meshes, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.shell import Shell
from tests.e2e.shown_output import Step, matches, steps
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
FOREGROUND = "archon serve estimator.yaml\n"
"""The command of the second terminal."""

GRAPH = "archon graph\n"
"""Repeated until it shows the agent, which takes a moment to join."""

DOWN = "archon down\n"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.close()
        home = tmp_path / "library" / ".archon"
        terminal = Terminal(home)
        terminal.archon("down")
        assert not terminal.processes()


def prints(shell: Shell, step: Step) -> bool:
    return matches(step.shown, shell.run(step.commands))


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(shell: Shell) -> None:
    for step in steps(PAGE.read_text()):
        if step.commands == FOREGROUND:
            shell.start(step.commands)
        elif step.commands == GRAPH:
            wait_until(partial(prints, shell, step), PATIENCE)
        else:
            if step.commands == DOWN:
                shell.stop()
            printed = shell.run(step.commands)
            assert not step.shown or matches(step.shown, printed), f"{step.commands}\n{printed}"


@pytest.mark.slow
def test_the_first_command_of_the_readme_prints_what_it_shows(shell: Shell) -> None:
    picture = re.search(r"^```text\n\$ (archon demo)\n(.*?)^```\n", README.read_text(), re.M | re.S)
    assert picture is not None
    printed = shell.run(f"{picture[1]} 2>&1")
    assert matches(picture[2], printed), printed


def test_the_readme_is_short() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) < 200
    assert "make demo" in "\n".join(lines[:56])


def test_the_tutorial_has_steps_with_and_without_output() -> None:
    commands = [step.commands for step in steps(PAGE.read_text())]
    assert len(commands) > 10
    assert {FOREGROUND, GRAPH, DOWN} <= set(commands)
    assert PAGE.read_text().count("```sh\n") == len(commands)


def test_output_that_differs_from_the_page_is_noticed() -> None:
    shown = "Plan\n...\nrole  0.02 s  a-0123456789ab\n"
    assert matches(shown, "Plan\n\n1. Write\nrole   1.20 s  a-ba9876543210\n")
    assert not matches(shown, "Plan\nrole 0.02 s b-0123456789ab\n")
    assert not matches(shown, "A Plan\n...\nrole 0.02 s a-0123456789ab\n")
    assert not matches("one\n", "one\ntwo\n")
