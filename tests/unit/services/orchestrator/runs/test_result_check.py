"""Results of steps against what their plan expects."""

from __future__ import annotations

import pytest

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.types.part import json_part
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.runs.turn.result_check import with_checked_result
from tests.unit.mesh.engine.plan_run import PlanRun, step

SCHEMA = '{"type": "object", "required": ["price"]}'


def result(run: PlanRun, text: str) -> inp.ResultIn:
    payload = agent_pb2.TaskResult()
    payload.output.add(text=text)
    return inp.ResultIn(run.task("a").task_id, 1, TaskState.COMPLETED, payload)


@pytest.mark.parametrize(
    ("expected", "text", "problem"),
    [
        (SCHEMA, '{"price": 7}', ""),
        (SCHEMA, '{"cost": 7}', "does not match"),
        (SCHEMA, "seven", "is not JSON"),
        ("a price", "seven", ""),
        ("a price", " ", "is empty"),
        ("a price", "Error: no such hotel", "is an error"),
        ("", " ", ""),
    ],
)
def test_a_result_that_is_not_as_expected_is_a_failure(expected: str, text: str, problem: str) -> None:
    run = PlanRun(step("a", expected_output=expected))
    run.begin("a")
    given = result(run, text)
    checked = with_checked_result(run.state, given)
    assert isinstance(checked, inp.ResultIn)
    if not problem:
        assert checked is given
        return
    assert checked.failure is not None
    assert problem in checked.failure.message
    run.feed(checked)
    assert run.task("a").state is TaskState.SUBMITTED, "it is tried again"
    assert len(run.task("a").faults) == 1


def test_three_refused_results_are_a_reason_for_a_new_plan() -> None:
    run = PlanRun(step("a", expected_output=SCHEMA), step("b"))
    for attempt in (1, 2, 3):
        run.now += 60.0
        run.feed(inp.Tick())
        run.begin("a")
        given = result(run, "seven")
        run.feed(with_checked_result(run.state, inp.ResultIn(given.task_id, attempt, given.state, given.payload)))
    assert run.state.plan is not None
    assert run.state.plan.planner, run.state.plan


def test_a_result_of_another_task_is_not_checked() -> None:
    run = PlanRun(step("a", expected_output=SCHEMA))
    planner = inp.ResultIn("r.1", 1, TaskState.COMPLETED, agent_pb2.TaskResult())
    unknown = inp.ResultIn("r.99", 1, TaskState.COMPLETED, agent_pb2.TaskResult())
    assert with_checked_result(run.state, planner) is planner
    assert with_checked_result(run.state, unknown) is unknown


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (json_part("[1]").proto, ""),
        (json_part("[]").proto, ""),
        (json_part('["one"]').proto, "0: 'one' is not of type 'integer'"),
        (common_pb2.Part(text="[1]"), ""),
        (common_pb2.Part(text="one"), "is not JSON"),
    ],
    ids=str,
)
def test_result_is_held_to_the_schema_of_its_step(part: common_pb2.Part, problem: str) -> None:
    run = PlanRun(step("a", output_schema={"type": "array", "items": {"type": "integer"}}))
    run.begin("a")
    payload = agent_pb2.TaskResult(output=[part])
    given = inp.ResultIn(run.task("a").task_id, 1, TaskState.COMPLETED, payload)
    checked = with_checked_result(run.state, given)
    assert isinstance(checked, inp.ResultIn)
    assert (checked.failure is None) == (not problem)
    if checked.failure is not None:
        assert problem in checked.failure.message
        run.feed(checked)
        assert problem in run.task("a").faults[0]
