"""Files of workflows: each fault with its file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument, NotFound
from archon_mesh.workflows import WorkflowFolder, load_workflow

HEAD = "name: trip\nparameters:\n  city: {}\n"


def write(folder: Path, text: str, name: str = "trip.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "line", "key", "why"),
    [
        ("name: trip\n", 1, "steps", "is missing"),
        ("name: 7trip\nsteps: [{task: x}]", 1, "name", "must be a name"),
        ("name: trip\nversoin: 2\nsteps: [{task: x}]", 2, "versoin", "did you mean version?"),
        ("name: trip\nversion: 0\nsteps: [{task: x}]", 2, "version", "must be at least 1"),
        ("name: trip\nsteps: []", 2, "steps", "must not be empty"),
        ("name: trip\nsteps:\n- rol: x\n  task: y", 3, "steps.0.rol", "did you mean role?"),
        ("name: trip\nsteps:\n- task: x\n- tool: a\n  role: b", 4, "steps.1", "has tool and role"),
        ("name: trip\nsteps:\n- save_as: x", 3, "steps.0", "has none of tool, role"),
        ("name: trip\nsteps:\n- role: writer", 3, "steps.0", "needs task"),
        ("name: trip\nsteps:\n- role: writer\n  task: x\n  args: {}", 3, "steps.0", "args does not belong"),
        ("name: trip\nsteps:\n- role: a\n  task: x\n  output: {type: nope}", 5, "steps.0.output", "no JSON Schema"),
        ("name: trip\nsteps:\n- approve: x\n  output: {}", 3, "steps.0", "output does not belong"),
        ("name: trip\nsteps:\n- if: true", 3, "steps.0", "needs then"),
        ("name: trip\nsteps:\n- if: yes please\n  then: [{task: x}]", 3, "steps.0.if", "a template in {{ }}"),
        ("name: trip\nsteps:\n- for_each: rooms\n  steps: [{task: x}]", 3, "steps.0.for_each", "a template"),
        ("name: trip\nsteps:\n- tool: a\n  on_error: retry", 4, "steps.0.on_error", "must be abort or continue"),
        ("name: trip\nsteps:\n- tool: a\n  on_error: {retry: 99}", 4, "steps.0.on_error.retry", "at most 10"),
        ("name: trip\nsteps:\n- tool: a\n  on_error: {then: abort, steps: [{task: x}]}", 4, "on_error", "not both"),
        ("name: trip\nparameters:\n  n: {type: int}\nsteps: [{task: x}]", 3, "parameters.n.type", "must be string"),
        ("name: trip\nparameters:\n  n: {type: integer, default: x}\nsteps: [{task: x}]", 3, "n.default", "whole"),
        ("name: trip\nparameters:\n  n: {enum: [1]}\nsteps: [{task: x}]", 3, "n.enum.0", "must be a text"),
        ("name: trip\nparameters:\n  n: {enum: [a], default: b}\nsteps: [{task: x}]", 3, "n.default", "one of a"),
        ("name: trip\nparameters:\n  loop: {}\nsteps: [{task: x}]", 3, "parameters.loop", "choose another name"),
        (HEAD + "steps:\n- task: to {{ ctiy }}", 5, "steps.0.task", "did you mean city?"),
        (HEAD + "steps:\n- tool: a\n  args:\n    x: [1, '{{ city }']", 7, "steps.0.args.x.1", "invalid template"),
        (HEAD + "steps:\n- tool: a\n  args: {x: '{{ later }}'}\n- task: y\n  save_as: later", 6, "args.x", "neither"),
        (HEAD + "steps:\n- task: y\n  save_as: city", 6, "steps.0.save_as", "is a parameter"),
        (HEAD + "steps:\n- task: y\n  save_as: a\n- task: z\n  save_as: a", 8, "steps.1.save_as", "has the id a"),
        (HEAD + "steps:\n- for_each: [1]\n  steps:\n  - task: '{{ itme }}'", 7, "steps.0.steps.0.task", "mean item?"),
        (HEAD + "steps:\n- task: '{% set x = 1 %}'", 5, "steps.0.task", "only expressions"),
        (HEAD + "steps:\n- task: '{{ city | shout }}'", 5, "steps.0.task", "no filter 'shout'"),
        (HEAD + "steps:\n- workflow: other", 5, "steps.0.workflow", "in no folder"),
        ("name: trip\nsteps:\n- approve: x\n  on_timeout: default", 3, "steps.0.default", "is missing"),
        ("name: trip\nsteps:\n- approve: x\n  timeout: -1", 4, "steps.0.timeout", "must be 0 to"),
        ("name: trip\nsteps:\n- approve: x\n  approvers: ['{{ y }}']", 4, "steps.0.approvers.0", "neither"),
        ("name: trip\nsteps:\n- task: x\n  approvers: [ann]", 3, "steps.0", "approvers does not belong"),
        ("name: trip\nsteps:\n- task: x\n  task: y", 4, "steps.0.task", "duplicate key"),
        ("name: [", 1, "", "invalid YAML"),
    ],
)
def test_each_fault_has_file_line_and_key(tmp_path: Path, text: str, line: int, key: str, why: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidArgument) as raised:
        load_workflow(path)
    first = str(raised.value).splitlines()[0]
    assert f"{path}:{line}: " in first, first
    assert key in first
    assert why in str(raised.value)


def test_all_faults_are_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "name: trip\nsteps:\n- task: '{{ a }}'\n- task: '{{ b }}'\n")
    with pytest.raises(InvalidArgument) as raised:
        load_workflow(path)
    assert [violation.field for violation in raised.value.field_violations] == ["steps.0.task", "steps.1.task"]


def test_variables_of_the_environment_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter22")
    workflow = load_workflow(write(tmp_path, "name: trip\nsteps: [{task: 'pay ${SECRET_TOKEN} or $$5'}]"))
    assert workflow.steps[0].task == "pay ${SECRET_TOKEN} or $$5"


# Folders and versions ------------------------------------------------------------------------------------------------


def steps(name: str, version: int, step: str = "{task: x}") -> str:
    return f"name: {name}\nversion: {version}\nsteps: [{step}]\n"


def test_the_highest_version_is_found_unless_one_is_named(tmp_path: Path) -> None:
    for version in (1, 10, 9):
        write(tmp_path, steps("trip", version), f"trip-{version}.yaml")
    folder = WorkflowFolder(tmp_path, tmp_path / "absent")
    assert folder.load("trip").reference == "trip@10"
    assert folder.load("trip@9").reference == "trip@9"
    with pytest.raises(NotFound, match="there are 1, 9, 10"):
        folder.load("trip@2")
    with pytest.raises(NotFound, match="no workflow tripp"):
        folder.load("tripp")
    with pytest.raises(InvalidArgument, match="invalid version 'x'"):
        folder.load("trip@x")
    assert [each.reference for each in folder.list()[0]] == ["trip@10", "trip@9", "trip@1"]


def test_two_files_with_one_version_are_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = write(tmp_path, steps("trip", 1), "a.yaml"), write(tmp_path, steps("trip", 1), "b.yml")
    with pytest.raises(InvalidArgument) as raised:
        WorkflowFolder(tmp_path).load("trip")
    assert str(first) in str(raised.value)
    assert str(second) in str(raised.value)


def test_a_broken_file_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, steps("trip", 1))
    broken = write(tmp_path, "name: bad\nsteps: 3", "bad.yaml")
    workflows, faults = WorkflowFolder(tmp_path).list()
    assert [each.name for each in workflows] == ["trip"]
    assert [fault.path for fault in faults] == [broken]
    with pytest.raises(InvalidArgument, match=r"bad.yaml:2: steps: must be a list"):
        WorkflowFolder(tmp_path).load("bad")


def test_called_workflows_are_found_and_checked(tmp_path: Path) -> None:
    write(tmp_path, "name: pay\nparameters:\n  sum: {type: integer}\nsteps: [{task: 'pay {{ sum }}'}]", "pay.yaml")
    write(tmp_path, steps("trip", 1, "{workflow: pay, args: {smu: 3}}"))
    folder = WorkflowFolder(tmp_path)
    with pytest.raises(InvalidArgument) as raised:
        folder.load("trip")
    assert "trip.yaml:3: steps.0.args.smu: pay@1 has no parameter smu; did you mean sum?" in str(raised.value)
    assert "the parameter sum of pay@1 is missing" in str(raised.value)
    write(tmp_path, steps("trip", 1, "{workflow: pay@1, args: {sum: 3}}"))
    assert folder.load("trip").calls["pay@1"].name == "pay"


def test_workflows_that_call_each_other_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, steps("a", 1, "{workflow: b}"), "a.yaml")
    write(tmp_path, steps("b", 1, "{workflow: a}"), "b.yaml")
    with pytest.raises(InvalidArgument, match="calls itself"):
        WorkflowFolder(tmp_path).load("a")


def test_the_environment_names_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    assert WorkflowFolder.from_environment(home, {}).folders == (tmp_path / "workflows", home / "workflows")
    assert WorkflowFolder.from_environment(home, {"ARCHON_WORKFLOWS": "/w"}).folders == (Path("/w"),)


def test_large_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="501 steps, at most 500"):
        load_workflow(write(tmp_path, "name: x\nsteps:\n" + "- {task: y}\n" * 501))
    nested = "{task: y}"
    for _ in range(18):
        nested = f"{{if: true, then: [{nested}]}}"
    with pytest.raises(InvalidArgument, match="nested more than 16 levels"):
        load_workflow(write(tmp_path, f"name: x\nsteps: [{nested}]"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name: trip\nsteps:\n  - {tool: keep, args: {value: 1, value: 2}}\n", "duplicate"),
        ("name: 'trip'  # for two\nsteps: [{task: x}\n", "trip.yaml"),
        ("name: trip\nsteps: []\n", "must not be empty"),
    ],
)
@pytest.mark.parametrize("file", ["trip.yaml", "other.yaml"])
def test_a_broken_workflow_that_is_asked_for_by_name_says_what_is_wrong(
    tmp_path: Path, text: str, why: str, file: str
) -> None:
    write(tmp_path, text, file)
    write(tmp_path, "name: [\n", "trips.yaml")
    with pytest.raises(InvalidArgument, match=why.replace("trip.yaml", file)):
        WorkflowFolder(tmp_path).load("trip")
    with pytest.raises(NotFound):
        WorkflowFolder(tmp_path).load("trips2")
