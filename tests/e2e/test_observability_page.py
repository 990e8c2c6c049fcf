"""The commands that docs/observability.md shows for runs execute in order, over real processes, and print what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import Shell
from tests.e2e.shown_output import matches, steps
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"
SECTIONS = ("archon trace", "archon prompts", "Records")


def sections() -> str:
    """Returns the sections whose commands are executed here."""
    found = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
    return "".join(found[name] for name in SECTIONS)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        terminal = Terminal(tmp_path / "clone" / ".archon")
        terminal.archon("down")
        assert not terminal.processes()


def test_the_page_prints_what_it_shows(shell: Shell) -> None:
    for step in steps(sections()):
        printed = shell.run(step.commands)
        assert not step.shown or matches(step.shown, printed), f"{step.commands}\n{printed}"


def test_the_page_shows_both_commands() -> None:
    shown = {step.commands for step in steps(sections()) if step.shown}
    assert {"archon trace last\n", "archon prompts last --role implementer --no-text\n"} <= shown
