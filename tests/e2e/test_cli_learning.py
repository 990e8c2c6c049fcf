"""`archon learning`: the page about it prints what it shows, of weights that follow from ratings of runs."""

from __future__ import annotations

import asyncio
import getpass
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from archon.client import Client
from tests.e2e.shown_output import matches, steps
from tests.e2e.small_mesh import small_mesh
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"
ROLES = ("designer", "requirements")
LEARNS = {"ARCHON_LEARNING": "on", "ARCHON_LEARNING_APPROVE_ABOVE": "0.2"}
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
WIDTH = 80


async def rate_runs(terminal: Terminal) -> None:
    """Runs each role four times: every run of the first one gets five stars, of the second one star."""
    async with Client(terminal.state().address("orchestrator"), credentials=terminal.credentials) as client:
        for role, stars in zip(ROLES, (5, 1), strict=True):
            handles = [await client.submit(f"Goal {number}.", roles=[role]) for number in range(4)]
            for handle in handles:
                await client.rate((await handle.result(timeout=PATIENCE)).run_id, stars)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A mesh that finds all outcomes at once when it starts."""
    folder = tmp_path_factory.mktemp("mesh")
    with small_mesh(folder, *ROLES) as terminal:
        asyncio.run(rate_runs(terminal))
        refused = terminal.archon("learning", "revert", "0")
        assert (refused.code, "ARCHON_LEARNING is off" in refused.err) == (1, True)
        assert "hint: Start the orchestrators with ARCHON_LEARNING=on." in refused.err
    with small_mesh(folder, *ROLES, **LEARNS) as terminal:
        wait_until(lambda: "proposed" in terminal.archon("learning", "history").out, PATIENCE)
        yield terminal


def words(text: str) -> str:
    """Replaces times, and the name of the user who runs the tests."""
    return TIME.sub("TIME", text).replace(f" {getpass.getuser()} ", " root ")


def test_the_page_prints_what_it_shows(terminal: Terminal) -> None:
    shown = steps(PAGE.read_text())
    for step in shown:
        results = [terminal.archon(*shlex.split(line)[1:]) for line in step.commands.splitlines()]
        printed = "".join(result.out for result in results)
        assert all(result.code == 0 for result in results), results
        assert not step.shown or matches(words(step.shown), words(printed)), f"{step.commands}\n{printed}"
        assert not step.shown or all(len(line) <= WIDTH for line in step.shown.splitlines()), step.shown
    assert sum(bool(step.shown) for step in shown) >= 4


def test_a_wrong_version_is_refused_with_a_hint(terminal: Terminal) -> None:
    for arguments, code, text in (
        (["show", "77"], 4, "there is no version 77"),
        (["approve", "77"], 4, "there is no version 77"),
        (["revert", "77"], 4, "there is no version 77"),
        (["reject", "1"], 1, "does not wait for a decision"),
    ):
        result = terminal.archon("learning", *arguments)
        assert (result.code, text in result.err) == (code, True), result
        assert result.error_lines[-1] == "hint: `archon learning history` lists the versions."


def test_the_group_without_a_command_prints_its_help(terminal: Terminal) -> None:
    result = terminal.archon("learning")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: archon learning ") and "error:" not in result.err
    assert result.error_lines[-1].split() == ["revert", *["Go", "back", "to", "the", "weights", "of", "a", "version."]]
