"""A step of a plan at an agent: the only tools it may use, what is expected, and the answers of steps in its context."""

from __future__ import annotations

import json

import pytest

from archon.agent import Answer, PlanRequest, TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import agent_handler
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.scripted_model import says

called: list[str] = []


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    called.append("add")
    return a + b


def erase(path: str) -> str:
    """Erases a file."""
    called.append("erase")
    return path


def task_of(assigned: agent_pb2.AssignTask) -> TaskContext:
    sent: list[session_pb2.AgentFrame] = []
    return TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink(sent), role="worker")


def assigned(*tools: str, **fields: str) -> agent_pb2.AssignTask:
    return agent_pb2.AssignTask(input=[common_pb2.Part(text="Do it.")], allowed_tools=tools, **fields)  # type: ignore[arg-type]


async def test_a_step_is_offered_its_tool_only_and_can_call_no_other() -> None:
    called.clear()
    model = ScriptedModel([says("", ToolCall("1", "erase", '{"path": "x"}')), says("done")])
    agent = Agent("worker", model=model, tools=[add, erase])
    answer = await agent_handler(agent)(task_of(assigned("add")))
    assert answer.text == "done"
    assert [[tool.name for tool in request.tools] for request in model.requests] == [["add"], ["add"]]
    assert called == []
    assert len(agent.tools) == 2, "the agent itself keeps its tools"


async def test_a_task_that_names_no_tools_may_use_all() -> None:
    called.clear()
    model = ScriptedModel([says("", ToolCall("1", "add", '{"a": 1, "b": 2}')), says("3")])
    await agent_handler(Agent("worker", model=model, tools=[add, erase]))(task_of(assigned()))
    assert [tool.name for tool in model.requests[0].tools] == ["add", "erase"]
    assert called == ["add"]


async def test_the_expected_output_is_part_of_the_query() -> None:
    model = ScriptedModel([says("done")])
    await agent_handler(Agent("worker", model=model))(task_of(assigned(expected_output="a number")))
    assert model.requests[0].messages[-1].content == "Do it.\n\nExpected output: a number"


async def test_answers_of_two_steps_of_one_role_stand_side_by_side() -> None:
    step = assigned()
    for step_id in ("first", "second"):
        item = step.context.add(step_id=step_id, parts=[common_pb2.Part(text=f"answer of {step_id}")])
        item.ref.role = "writer"
    model = ScriptedModel([says("done")])
    await agent_handler(Agent("worker", model=model))(task_of(step))
    shared = [message.content for message in model.requests[0].messages if message.role == "system"]
    assert shared == [
        "Shared context from writer (first):\nanswer of first",
        "Shared context from writer (second):\nanswer of second",
    ]


def test_a_task_context_tells_about_its_step() -> None:
    request = agent_pb2.PlanRequest(revision=2)
    planner = agent_pb2.AssignTask(plan_request=request)
    assert task_of(planner).plan_request == PlanRequest(request)
    step = task_of(assigned("add", step_id="s", tool_args_json='{"a":1}'))
    assert (step.step_id, step.allowed_tools, step.tool_args_json, step.plan_request) == (
        "s",
        ("add",),
        '{"a":1}',
        None,
    )


NUMBERS = {"type": "array", "items": {"type": "integer"}}


async def test_answer_to_a_step_with_a_schema_is_one_json_part() -> None:
    model = ScriptedModel([says("one"), says("[1]")])
    step = assigned(output_schema_json=json.dumps(NUMBERS))
    answer = await agent_handler(Agent("worker", model=model, output=int))(task_of(step))
    assert isinstance(answer, Answer)
    assert (answer.text, [part.data_json for part in answer.parts]) == ("", ["[1]"])
    assert len(model.requests) == 2


async def test_output_of_the_agent_is_not_that_of_a_tool() -> None:
    agent = Agent("worker", model=ScriptedModel(), tools=[add], output={"type": "object"})
    answer = await agent_handler(agent)(task_of(assigned("add", tool_args_json='{"a": 1, "b": 2}')))
    assert isinstance(answer, Answer)
    assert (answer.text, answer.parts) == ("3", ())


@pytest.mark.parametrize("schema", ["[]", "{broken", '{"type": "nope"}', '{"$ref": "https://example.com/x"}'])
async def test_invalid_schema_of_a_step_fails_its_task(schema: str) -> None:
    with pytest.raises(InvalidArgument):
        await agent_handler(Agent("worker", model=ScriptedModel()))(task_of(assigned(output_schema_json=schema)))


async def test_planner_is_not_held_to_its_output() -> None:
    plan = json.dumps({"goal": "Do it", "subtasks": [{"id": "a", "description": "do it"}]})
    agent = Agent("planner", model=ScriptedModel([says(plan)]), output={"type": "array"})
    request = assigned()
    request.plan_request.targets.add(role="worker")
    answer = await agent_handler(agent)(task_of(request))
    assert isinstance(answer, Answer)
    assert json.loads(answer.text)["subtasks"][0]["id"] == "a"
    synthesis = assigned()
    synthesis.plan_request.synthesise = True
    agent = Agent("planner", model=ScriptedModel([says("It is done.")]), output={"type": "array"})
    answer = await agent_handler(agent)(task_of(synthesis))
    assert isinstance(answer, Answer)
    assert answer.text == "It is done."
