"""A request for a plan at an agent: the planner of this package answers it, with the model and the hooks of the agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon.agent import Answer, Question, TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.engine.plan import EmptyPlan
from archon_mesh.engine.plan.prompt import REPLY_SCHEMA
from archon_mesh.llm import ModelClient, ScriptedModel
from archon_mesh.node import agent_handler
from archon_mesh.planning import MalformedPlan
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.media import PNG
from tests.fixtures.scripted_model import says

COMPLETED = common_pb2.TASK_STATE_COMPLETED
CALCULATOR = '{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}'


def target(role: str, description: str, *tools: str) -> plan_pb2.PlanTarget:
    made = plan_pb2.PlanTarget(role=role, description=description)
    for name in tools:
        made.tools.add(name=name, description="Evaluates arithmetic.", input_schema_json=CALCULATOR)
    return made


TARGETS = (target("coder", "Writes code.", "calculator"), target("researcher", "Finds facts."))


def request(**fields: Any) -> agent_pb2.PlanRequest:
    return agent_pb2.PlanRequest(targets=TARGETS, max_steps=1_000, revision=1, **fields)


class Planning:
    """An agent that plans, and the frames that it sent meanwhile."""

    def __init__(self, model: ModelClient | str, **agent: Any) -> None:
        self.agent = Agent("planner", model=model, **agent)
        self.sent: list[session_pb2.AgentFrame] = []

    async def answer(self, asked: agent_pb2.PlanRequest, goal: str = "15 * 24, and facts about 360") -> Answer:
        assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text=goal)], plan_request=asked)
        if asked.synthesise:
            for step in asked.previous.steps:
                if step.state == common_pb2.TASK_STATE_COMPLETED:
                    item = assigned.context.add(
                        step_id=step.step_id, parts=[common_pb2.Part(text=f"of {step.step_id}")]
                    )
                    item.ref.role = step.role
        ref = common_pb2.TaskRef(task_id="t", attempt=1)
        task = TaskContext.from_proto(ref, assigned, FakeLink(self.sent), role="planner")
        answer = await agent_handler(self.agent)(task)
        assert isinstance(answer, Answer)
        return answer

    async def plan(self, asked: agent_pb2.PlanRequest, goal: str = "15 * 24, and facts about 360") -> dict[str, Any]:
        plan: dict[str, Any] = json.loads((await self.answer(asked, goal)).text)
        return plan


def reply(*subtasks: dict[str, Any]) -> str:
    return json.dumps({"goal": "facts about 360", "subtasks": subtasks})


def subtask(id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "description": f"find facts about 360 ({id})", **fields}


async def test_the_offline_model_plans_for_the_roles() -> None:
    plan = await Planning("offline").plan(request())
    assert [(each["tool_name"], each["tool_args"], each["role"]) for each in plan["subtasks"]] == [
        ("calculator", {"expression": "15 * 24"}, ""),
        ("", {}, "researcher"),
    ]
    assert "changes" not in plan


async def test_the_model_sees_roles_tools_and_profiles() -> None:
    model = ScriptedModel([says(reply(subtask("1", role="coder")))])
    asked = request()
    asked.targets[0].profile.expected_latency_ms = 1_500
    asked.targets[0].profile.instructions = "Say what."
    planning = Planning(model, system_prompt="You are the planner.")
    answer = await planning.answer(asked)
    (sent,) = model.requests
    data = json.loads(sent.messages[-1].content)
    assert data["roles"] == {"coder": "Writes code.", "researcher": "Finds facts."}
    assert [tool["name"] for tool in data["tools"]] == ["calculator"]
    assert data["profiles"] == {"coder": {"tools": ["calculator"], "instructions": "Say what.", "seconds": 1.5}}
    assert sent.messages[0].content == "You are the planner."
    assert (sent.temperature, sent.is_json, sent.output_schema) == (0.1, True, REPLY_SCHEMA)
    assert not answer.publish, "a plan is of no use to other roles"
    assert not any(frame.progress.text for frame in planning.sent), "a plan is shown only when it is whole"


async def test_the_temperature_of_the_agent_wins() -> None:
    model = ScriptedModel([says(reply(subtask("1")))])
    await Planning(model, temperature=0.7).plan(request())
    assert model.requests[0].temperature == 0.7


async def test_faults_are_sent_back_once_then_repaired_and_told() -> None:
    broken = reply(subtask("1", tool_name="calculater"))
    model = ScriptedModel([says(broken), says(broken)])
    plan = await Planning(model).plan(request())
    assert plan["subtasks"][0]["tool_name"] == "calculator"
    assert plan["changes"] == ["subtask '1' has the tool 'calculator' instead: there is no 'calculater'"]
    assert "cannot be executed" in model.requests[1].messages[-1].content


async def test_what_the_orchestrator_refused_is_shown_to_the_model() -> None:
    model = ScriptedModel([says(reply(subtask("1")))])
    await Planning(model).plan(request(faults=["no role has the tool"]))
    assert "- no role has the tool" in model.requests[0].messages[-1].content


async def test_a_replan_has_only_what_is_left() -> None:
    asked = request(reason="the critical subtask b failed")
    done = asked.previous.steps.add(
        step_id="a", description="do a", role="coder", state=common_pb2.TASK_STATE_COMPLETED
    )
    done.result.add(text="360")
    failed = asked.previous.steps.add(step_id="b", description="do b", state=common_pb2.TASK_STATE_FAILED)
    failed.failure.message = "booked out"
    model = ScriptedModel([says(reply(subtask("c", dependencies=["a"])))])
    plan = await Planning(model).plan(asked)
    assert [(each["id"], each["dependencies"]) for each in plan["subtasks"]] == [("c", ["a"])]
    data = json.loads(model.requests[0].messages[-1].content)
    assert [(each["id"], each["status"], each["result"]) for each in data["progress"]] == [
        ("a", "completed", "360"),
        ("b", "failed", "booked out"),
    ]
    assert data["reason"] == "the critical subtask b failed"


@pytest.mark.parametrize(("text", "error"), [("I cannot.", MalformedPlan), (reply(), EmptyPlan)])
async def test_a_reply_without_a_plan_fails_the_task(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await Planning(ScriptedModel([says(text), says(text)])).plan(request())


def executed(*states: tuple[str, common_pb2.TaskState.ValueType]) -> agent_pb2.PlanRequest:
    asked = agent_pb2.PlanRequest(synthesise=True)
    for step_id, state in states:
        asked.previous.steps.add(step_id=step_id, description=f"do {step_id}", role="coder", state=state)
    return asked


COMPLETED, FAILED = common_pb2.TASK_STATE_COMPLETED, common_pb2.TASK_STATE_FAILED


async def test_results_are_combined_without_repeating_the_context() -> None:
    model = ScriptedModel([says("the whole answer")])
    answer = await Planning(model).answer(executed(("a", COMPLETED), ("b", COMPLETED), ("c", FAILED)))
    assert (answer.text, answer.publish) == ("the whole answer", True)
    messages = model.requests[0].messages
    assert len(messages) == 2, "the results are in the query alone"
    results = json.loads(messages[-1].content)["results"]
    assert [(each["step"], each["status"], each["result"]) for each in results] == [
        ("do a", "completed", "of a"),
        ("do b", "completed", "of b"),
        ("do c", "failed", "null"),
    ]


async def test_a_single_result_needs_no_model() -> None:
    model = ScriptedModel([])
    assert (await Planning(model).answer(executed(("a", COMPLETED)))).text == "of a"


async def test_a_planner_asks_once_and_plans_with_the_answer() -> None:
    model = ScriptedModel([says('{"question": "Where to?"}'), says(reply(subtask("1")))])
    handler = agent_handler(Agent("planner", model=model))
    assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text="Facts about 360")], plan_request=request())
    asked = await handler(
        TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="planner")
    )
    assert isinstance(asked, Question)
    assert asked.text == "Where to?"
    assigned.resume.checkpoint = asked.checkpoint
    assigned.resume.answers.add(input_id=asked.input_id, parts=[common_pb2.Part(text="To Rome.")])
    answer = await handler(
        TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=2), assigned, FakeLink([]), role="planner")
    )
    assert isinstance(answer, Answer)
    data = json.loads(model.requests[1].messages[-1].content)
    assert data["context"] == {"clarification": {"question": "Where to?", "answer": "To Rome."}}
    assert '{"question":' in model.requests[0].messages[0].content + model.requests[0].messages[-1].content
    assert '{"question": "..."}' not in model.requests[1].messages[0].content, "it may ask once"


async def test_an_expansion_replies_with_its_new_steps_only() -> None:
    asked = request(expand=["rest"])
    done = asked.previous.steps.add(step_id="list", description="list the numbers", state=COMPLETED)
    done.result.add(text="360")
    asked.previous.steps.add(step_id="rest", description="the facts", dependencies=["list"], expand=True)
    asked.previous.steps.add(step_id="sum", description="sum up the facts", dependencies=["rest"], checkpoint=True)
    model = ScriptedModel([says(reply(subtask("rest/1", dependencies=["list"])))])
    plan = await Planning(model).plan(asked)
    assert [(each["id"], each["dependencies"]) for each in plan["subtasks"]] == [
        ("sum", ["rest/1"]),
        ("rest/1", ["list"]),
    ]
    assert plan["subtasks"][0]["checkpoint"], "a step keeps what it is"
    assert json.loads(model.requests[0].messages[-1].content)["expand"] == ["rest"]


async def test_a_goal_with_files_is_not_planned() -> None:
    planning = Planning(ScriptedModel(["{}"]))
    parts = [common_pb2.Part(text="Describe it."), common_pb2.Part(raw=PNG, filename="a.png", media_type="image/png")]
    assigned = agent_pb2.AssignTask(input=parts, plan_request=request())
    task = TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="planner")
    with pytest.raises(InvalidArgument, match=r"text only, not \[a\.png, image/png") as raised:
        await agent_handler(planning.agent)(task)
    assert [violation.field for violation in raised.value.field_violations] == ["goal"]


def checked() -> agent_pb2.PlanRequest:
    asked = request(align=True)
    asked.revision = 2
    asked.previous.steps.add(step_id="1", description="find facts about 360", state=COMPLETED)
    asked.previous.steps[0].result.add(text="a circle has 360 degrees")
    asked.previous.steps.add(step_id="2", description="book a flight", dependencies=["1"])
    return asked


async def test_a_plan_that_still_leads_to_the_goal_is_aligned() -> None:
    model = ScriptedModel([says('{"aligned": true}')])
    assert await Planning(model).plan(checked(), "facts about 360") == {"aligned": True}
    shown = json.loads(model.requests[0].messages[-1].content)
    assert (shown["query"], shown["results"][0]["result"]) == ("facts about 360", "a circle has 360 degrees")
    assert [each["id"] for each in shown["remaining"]] == ["2"]


async def test_a_plan_that_strays_is_made_anew_with_the_reason() -> None:
    verdict = '{"aligned": false, "problem": "a flight was not asked for"}'
    model = ScriptedModel([says(verdict), says(reply(subtask("3", dependencies=["1"])))])
    plan = await Planning(model).plan(checked(), "facts about 360")
    assert plan["reason"] == "a flight was not asked for"
    assert [each["id"] for each in plan["subtasks"]] == ["3"]
    asked = json.loads(model.requests[1].messages[-1].content)
    assert asked["reason"] == "the plan no longer serves the query: a flight was not asked for"


async def test_the_offline_model_finds_every_plan_aligned() -> None:
    assert await Planning("offline").plan(checked()) == {"aligned": True}
