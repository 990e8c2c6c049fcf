"""The goal of a run that executes a workflow, and what the role that interprets it reads from a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.agent import Answer, TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.errors import InvalidArgument
from archon.types.part import to_messages
from archon_mesh.workflows import StepResult
from archon_mesh.workflows.role import MEDIA_TYPE, goal_of, handle, results_in, workflow_in
from tests.fixtures.fake_link import FakeLink
from tests.unit.mesh.workflows.files import known, load


def test_a_goal_carries_the_workflow_and_its_arguments(tmp_path: Path) -> None:
    workflow = load(tmp_path, "name: x\nparameters: {a: {}}\nsteps: [{workflow: y}]", y="name: y\nsteps: [{task: t}]")
    goal = goal_of(workflow, {"a": "ä"})
    assert goal[0].text == "Workflow x@1"
    read, arguments = workflow_in(to_messages(goal))
    assert arguments == {"a": "ä"}
    assert known(read, a="ä") == known(workflow, a="ä")


def test_a_workflow_in_a_goal_is_bounded(tmp_path: Path) -> None:
    workflow = load(tmp_path, "name: x\nparameters: {a: {}}\nsteps: [{task: t}]")
    with pytest.raises(InvalidArgument, match="more than 1,048,576 bytes"):
        goal_of(workflow, {"a": "x" * 1024 * 1024})


@pytest.mark.parametrize(
    "data", ["", "[]", "{}", '{"workflow": {}, "arguments": {}}', '{"workflow": 1, "arguments": 2}']
)
def test_a_goal_without_a_workflow_is_a_typed_error(data: str) -> None:
    with pytest.raises(InvalidArgument):
        workflow_in([common_pb2.Part(data_json=data, media_type=MEDIA_TYPE)])
    with pytest.raises(InvalidArgument, match="archon workflow run"):
        workflow_in([common_pb2.Part(text="book a trip")])


def test_results_are_those_of_steps_that_have_ended() -> None:
    plan = plan_pb2.Plan()
    done = plan.steps.add(step_id="a", state=common_pb2.TASK_STATE_COMPLETED)
    done.result.add(text="[1]")
    plan.steps.add(step_id="b", state=common_pb2.TASK_STATE_FAILED).failure.message = "full"
    plan.steps.add(step_id="c", state=common_pb2.TASK_STATE_WORKING)
    plan.steps.add(step_id="d", state=common_pb2.TASK_STATE_CANCELED)
    assert results_in(plan) == {"a": StepResult("[1]"), "b": StepResult(error="full")}


async def test_a_workflow_is_followed_as_it_is() -> None:
    assigned = agent_pb2.AssignTask(plan_request=agent_pb2.PlanRequest(align=True))
    answer = await handle(
        TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="workflow")
    )
    assert isinstance(answer, Answer)
    assert (answer.text, answer.publish) == ('{"aligned": true}', False)
