"""The options of an arbiter, from a program, a file, and the metadata of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.declared import load_agent
from archon_mesh.node import Arbitration
from tests.fixtures.reference_roles import reference_role


@pytest.mark.parametrize(
    "options",
    [
        {"ways": []},
        {"ways": ["dice"]},
        {"ways": ["model", "model"]},
        {"verifier": "No Role"},
        {"reviewer": "-"},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"person_seconds": 1e12},
        {"approvers": ["a"] * 21},
        {"default": "x" * 20_000},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Arbitration(**options)


def test_the_metadata_of_a_run_replaces_options() -> None:
    metadata = {
        "dev.archon.arbiter/ways": "person, verify",
        "dev.archon.arbiter/verifier": "editor",
        "dev.archon.arbiter/redo": "true",
        "ticket": "4711",
    }
    options = Arbitration(seconds=5).for_run(metadata)
    assert options == Arbitration(ways=("person", "verify"), verifier="editor", redo=True, seconds=5)


@pytest.mark.parametrize(
    ("key", "text"), [("ways", "dice"), ("ways", ""), ("redo", "perhaps"), ("colour", "red"), ("verifier", "No Role")]
)
def test_wrong_options_of_a_run_are_refused(key: str, text: str) -> None:
    with pytest.raises(InvalidArgument):
        Arbitration().for_run({f"dev.archon.arbiter/{key}": text})


def test_the_reference_role_is_an_arbiter_and_no_coordinator() -> None:
    role = reference_role("arbiter")
    assert role.arbiter == Arbitration(ways=["method", "verify", "model", "reviewer", "person"])
    assert not role.coordinator  # or goals without a role would go to it


def test_a_file_sets_the_options_of_an_arbiter(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("name: judge\nrole: {arbiter: {ways: [person], approvers: [anna], default: s-1, redo: true}}\n")
    expected = Arbitration(ways=["person"], approvers=["anna"], default="s-1", redo=True)
    assert load_agent(path).role.arbiter == expected
    path.write_text("name: judge\nrole: {arbiter: {ways: [dice]}}\n")
    with pytest.raises(InvalidArgument, match="ways"):
        load_agent(path)
