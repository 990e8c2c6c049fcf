"""Arguments of `archon plan`, and what its commands print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archon.errors import FieldViolation, InvalidArgument
from archon_services.cli.commands import plan as command
from archon_services.cli.drawing_format import Format, format_of
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.main import app


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The goals that a plan is asked for."""
    goals: list[Any] = []

    async def make(goal: Any, *_: Any, **__: Any) -> Any:
        from archon.api.common.v1 import plan_pb2

        goals.append(goal)
        return plan_pb2.Plan(goal=str(goal), revision=1)

    monkeypatch.setattr(command, "_make", make)
    return goals


@pytest.mark.parametrize(
    "arguments",
    [("Book a trip",), ("--json", "Book a trip"), ("make", "Book a trip"), ("--role", "clerk", "Book a trip")],
)
def test_what_is_no_command_is_a_goal(called: list[Any], arguments: tuple[str, ...]) -> None:
    app(["plan", *arguments], standalone_mode=False)
    assert called == ["Book a trip"]


@pytest.mark.parametrize("goal", ["show", "edit", "make", "--help"])
def test_a_goal_with_the_name_of_a_command_follows_dashes(called: list[Any], goal: str) -> None:
    app(["plan", "--", goal], standalone_mode=False)
    assert called == [goal]


def test_a_missing_goal_is_a_usage_error(called: list[Any]) -> None:
    with pytest.raises(CliError, match="missing goal") as caught:
        app(["plan", "--json"], standalone_mode=False)
    assert caught.value.code == USAGE
    assert called == []


def test_the_suffix_of_a_file_names_the_format() -> None:
    forms = {name: format_of(Path(name)) for name in ("p.mmd", "p.gv", "p.svg", "p.json", "p")}
    assert list(forms.values()) == [Format.MERMAID, Format.DOT, Format.SVG, Format.JSON, Format.TEXT]
    with pytest.raises(CliError, match=r"\.pdf"):
        format_of(Path("p.pdf"))


@pytest.mark.parametrize(
    ("text", "seq"),
    [
        (json.dumps({"change_seq": 7, "subtasks": []}), 7),
        (json.dumps({"change_seq": "7"}), 0),
        (json.dumps({"change_seq": -1}), 0),
        ("[]", 0),
        ("{subtasks: [{id: 1}]}", 0),
    ],
)
def test_a_file_may_say_which_plan_it_edits(tmp_path: Path, text: str, seq: int) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert command._read(file) == (text, seq)


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="cannot read"):
        command._read(tmp_path / "absent.json")
    broken = tmp_path / "broken.json"
    broken.write_bytes(b"\xff")
    with pytest.raises(CliError, match="UTF-8"):
        command._read(broken)


def test_every_fault_of_a_plan_is_named() -> None:
    violations = [FieldViolation("a", "a circle"), FieldViolation("b", "no role")]
    error = InvalidArgument("a circle", field_violations=violations)
    assert command._with_faults("plan.json cannot be executed: a circle", error).splitlines() == [
        "plan.json cannot be executed: a circle",
        "  b: no role",
    ]
