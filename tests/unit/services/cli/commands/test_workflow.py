"""`archon workflow`: files, parameters, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archon.errors import InvalidArgument, NotFound
from archon_services.cli.commands import workflow as command
from archon_services.cli.errors import USAGE, CliError

TRIP = """
name: trip
description: Books a trip
parameters:
  city: {}
  nights: {type: integer, default: 2}
  rooms: {type: list, default: []}
  fast: {type: boolean, default: false}
steps:
  - role: writer
    task: "{{ city }}"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARCHON_WORKFLOWS", str(tmp_path))
    monkeypatch.setenv("ARCHON_HOME", str(tmp_path / "home"))
    (tmp_path / "trip.yaml").write_text(TRIP)
    return tmp_path


def test_parameters_get_the_types_of_the_workflow(folder: Path) -> None:
    (folder / "rooms.json").write_text('["a", 2]')
    given = ["city=12", "nights=3", f"rooms=@{folder}/rooms.json", "fast=true"]
    values = command.arguments_of(command.load_template("trip"), given)
    assert values == {"city": "12", "nights": 3, "rooms": ["a", 2], "fast": True}


def test_each_wrong_parameter_has_a_message() -> None:
    with pytest.raises(InvalidArgument) as raised:
        command.arguments_of(command.load_template("trip"), ["nights=two", "rooms={}", "fast=1", "town=x"])
    assert [violation.field for violation in raised.value.field_violations] == [
        "city",
        "nights",
        "rooms",
        "fast",
        "town",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [(["city"], "expected KEY=VALUE"), (["city=a", "city=b"], "twice"), (["city=@/absent"], "cannot read /absent")],
)
def test_malformed_options_are_usage_errors(given: list[str], why: str) -> None:
    with pytest.raises(CliError, match=why) as raised:
        command.arguments_of(command.load_template("trip"), given)
    assert raised.value.code == USAGE


def test_a_workflow_is_found_by_name_version_and_file(folder: Path) -> None:
    for name in ("trip", "trip@1", str(folder / "trip.yaml")):
        assert command.load_template(name).reference == "trip@1"
    with pytest.raises(NotFound):
        command.load_template("tripp")


def test_a_wrong_parameter_submits_nothing() -> None:
    with pytest.raises(InvalidArgument, match="city: is missing"):
        command.run("trip", orchestrator="127.0.0.1:1")


def test_the_list_has_schemas_and_names_broken_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.yaml").write_text("name: bad\nsteps: 1")
    command.list_(as_json=True)
    output = capsys.readouterr()
    (entry,) = json.loads(output.out)
    assert (entry["name"], entry["version"]) == ("trip", 1)
    assert entry["parameters"]["required"] == ["city"]
    assert "bad.yaml:2: steps: must be a list" in output.err
    command.list_()
    assert "city, [nights], [rooms], [fast]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (command.Form.TEXT, "  1. role writer: {{ city }}\n"),
        (command.Form.MERMAID, "flowchart TD\n"),
        (command.Form.DOT, "digraph plan {\n"),
    ],
)
def test_a_workflow_is_shown_in_each_format(
    form: command.Form, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command.show("trip", form)
    assert expected in capsys.readouterr().out


def test_an_empty_folder_says_where_it_looked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trip.yaml").unlink()
    command.list_()
    assert str(folder) in capsys.readouterr().out
