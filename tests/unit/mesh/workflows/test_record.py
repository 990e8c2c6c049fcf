"""Workflows that are recorded from executed plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archon.errors import FailedPrecondition
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task, fill_arguments, template_values
from archon_mesh.workflows import Workflow, load_workflow
from archon_mesh.workflows.record import record
from tests.unit.mesh.workflows.files import known

QUERY = "Book a flight to Rome for 3 nights with the key sk-abcdef123456"


def done(id: str, *dependencies: str, result: Any = "done", **fields: Any) -> SubTask:
    description = fields.pop("description", f"Do {id}.")
    return SubTask(id, description, dependencies=dependencies, **fields).with_result(result)


TRIP = Task(
    "t",
    QUERY,
    "a trip",
    (
        done("1", result={"price": [120]}, tool_name="book_flight", tool_args={"city": "Rome", "api_key": "k-123"}),
        done("2", tool_name="book_hotel", tool_args={"city": "Rome", "nights": 3, "stars": 5}),
        done("3", "1", tool_name="pay", tool_args={"sum": "{1.price.0}", "note": "for {{all}} in Rome: {2}"}),
        done("4", "3", "1", role="writer", description="Write about Rome and {{ braces }}."),
        SubTask("5", "Was skipped.", dependencies=("4",), status=SubTaskStatus.SKIPPED),
    ),
)


def recorded(folder: Path, task: Task = TRIP, name: str = "trip") -> tuple[Workflow, str, dict[str, str]]:
    recording = record(task, name)
    path = folder / f"{name}.yaml"
    path.write_text(recording.to_yaml("Recorded."))
    return load_workflow(path), path.read_text(), recording.parameters


def test_values_of_the_goal_become_parameters(tmp_path: Path) -> None:
    workflow, _, parameters = recorded(tmp_path)
    assert list(workflow.parameters) == ["city", "api_key", "nights"]
    assert workflow.parameters["city"].default == "Rome"
    assert workflow.parameters["nights"].default == 3
    assert parameters["city"] == "the argument city of step 1, which was 'Rome' in the goal"


def test_no_secret_is_written(tmp_path: Path) -> None:
    workflow, text, parameters = recorded(tmp_path)
    assert "k-123" not in text
    assert "sk-abcdef" not in text
    assert workflow.parameters["api_key"].required
    assert "may be a secret" in parameters["api_key"]


def test_no_result_is_written(tmp_path: Path) -> None:
    task = replace(TRIP, subtasks=tuple(each.with_result("hunter2 found") for each in TRIP.subtasks[:2]))
    assert "hunter2" not in recorded(tmp_path, task)[1]


def test_the_recorded_workflow_makes_the_same_plan(tmp_path: Path) -> None:
    workflow, _, _ = recorded(tmp_path)
    results = {"step-1/step_1": '{"price": [120]}', "step-1/step_2": "a room", "step_3": "paid"}
    again = known(workflow, results, api_key="k-123")
    values = template_values(TRIP)
    for old, new in zip(TRIP.subtasks[:3], again.values(), strict=False):
        assert new.tool_name == old.tool_name
        values["2"] = "a room"
        assert fill_arguments(new.tool_args, {}) == fill_arguments(old.tool_args, values)
    assert again["step_4"].description.startswith("Write about Rome and {{ braces }}.\n\nResult of 1:")
    assert len(again) == 4, "what was skipped is left out"


def test_independent_steps_stay_parallel(tmp_path: Path) -> None:
    workflow, _, _ = recorded(tmp_path)
    assert [step.kind for step in workflow.steps] == ["parallel", "tool", "role"]


def test_other_values_of_the_goal_reach_the_steps(tmp_path: Path) -> None:
    workflow, _, _ = recorded(tmp_path)
    results = {"step-1/step_1": '{"price": [120]}', "step-1/step_2": "", "step_3": ""}
    again = known(workflow, results, api_key="", city="Oslo", nights=1)
    assert again["step-1/step_2"].tool_args == {"city": "Oslo", "nights": 1, "stars": 5}
    assert again["step_4"].description.startswith("Write about Oslo")


@pytest.mark.parametrize(
    "task",
    [
        replace(TRIP, context={"workflow": "trip@1"}),
        replace(TRIP, subtasks=(TRIP.subtasks[4],)),
    ],
)
def test_what_cannot_be_recorded_is_a_typed_error(task: Task) -> None:
    with pytest.raises(FailedPrecondition, match="nothing to record"):
        record(task, "trip")


@pytest.mark.parametrize("id", ["1", "a b", "äh", "error", "{x}", "-", "x" * 150])
def test_any_id_gives_a_name(tmp_path: Path, id: str) -> None:
    workflow, _, _ = recorded(tmp_path, replace(TRIP, subtasks=(done(id, role="writer"),)))
    assert len(workflow.steps) == 1


def test_schema_of_a_result_is_recorded(tmp_path: Path) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    task = Task("t", "numbers", "numbers", (done("1", role="clerk", output_schema=schema),))
    workflow, _, _ = recorded(tmp_path, task)
    assert [each.output_schema for each in known(workflow).values()] == [schema]
