"""The planner: its prompt, corrections, questions, approval and replans."""

from __future__ import annotations

import json
import logging

import jsonschema
import pytest

from archon.errors import Unavailable
from archon_mesh.core.messages import ToolCall
from archon_mesh.engine.plan import EmptyPlan, SubTaskStatus, Task, carry_over
from archon_mesh.engine.plan.prompt import REPLY_SCHEMA
from archon_mesh.llm import ScriptedModel
from archon_mesh.llm.anthropic import AnthropicModel
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.planning import MalformedPlan, Planner, PlanNotApproved, create_plan
from archon_mesh.tools import tool
from archon_mesh.tools.builtin import Calculator
from tests.fixtures import anthropic_server as anthropic
from tests.fixtures.anthropic_server import AnthropicServer
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk
from tests.fixtures.plan_replies import reply, subtask
from tests.unit.mesh.planning.workers import plan, planner_of


@tool
def search(query: str) -> str:
    """Searches the web."""
    return query


async def test_the_prompt_names_tools_roles_and_context() -> None:
    planner, model = planner_of(reply(subtask("1")), roles={"writer": "Writes."}, capabilities=["translation"])
    task = await planner.create_plan("Do it", [search, Calculator()], {"city": "Rome"})
    assert (task.id, task.original_query, task.context) == ("task-1", "Do it", {"city": "Rome"})
    (request,) = model.requests
    data = json.loads(request.messages[-1].content)
    assert [each["name"] for each in data["tools"]] == ["search", "calculator"]
    assert data["tools"][0]["parameters"]["required"] == ["query"]
    assert (data["roles"], data["capabilities"]) == ({"writer": "Writes."}, ["translation"])
    assert data["context"] == {"city": "Rome"}
    assert (request.temperature, request.tools) == (0.1, ())
    assert planner.usage.input_tokens > 0


async def test_faults_are_sent_back_once_in_words() -> None:
    planner, model = planner_of(reply(subtask("1", "2")), reply(subtask("1")))
    task = await planner.create_plan("Do it")
    assert [each.dependencies for each in task.subtasks] == [()]
    quoted, faults = model.requests[1].messages[-2:]
    assert (quoted.role, quoted.content) == ("assistant", reply(subtask("1", "2")))
    assert "subtask '1' depends on '2', which is no subtask" in faults.content


async def test_what_is_still_wrong_is_repaired_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    planner, model = planner_of(*[reply(subtask("1", "1", tool_name="serch"))] * 2)
    with caplog.at_level(logging.WARNING):
        task = await planner.create_plan("Do it", [search])
    assert (task.subtasks[0].tool_name, task.subtasks[0].dependencies) == ("search", ())
    assert "subtask '1' has the tool 'search' instead: there is no 'serch'" in caplog.text
    assert model.remaining == 0


async def test_a_reply_that_cannot_be_read_is_asked_for_again() -> None:
    planner, model = planner_of("I would search first.", reply(subtask("1")))
    assert len((await planner.create_plan("Do it")).subtasks) == 1
    assert "no plan in JSON" in model.requests[1].messages[-1].content


async def test_a_second_unreadable_reply_is_an_error() -> None:
    planner, _ = planner_of("No.", "No!")
    with pytest.raises(MalformedPlan):
        await planner.create_plan("Do it")


async def test_a_plan_with_faults_is_better_than_none() -> None:
    planner, _ = planner_of(reply(subtask("1", "2")), "Sorry.")
    assert (await planner.create_plan("Do it")).subtasks[0].dependencies == ()


async def test_an_empty_plan_is_an_error() -> None:
    planner, _ = planner_of(*[reply()] * 2)
    with pytest.raises(EmptyPlan):
        await planner.create_plan("Do it")


async def test_a_plan_in_a_tool_call_is_read() -> None:
    planner, _ = planner_of(ToolCall("1", "plan", reply(subtask("1"))))
    assert len((await planner.create_plan("Do it")).subtasks) == 1


async def test_a_question_is_answered_once() -> None:
    asked = []

    async def clarify(question: str) -> str:
        asked.append(question)
        return "To Rome."

    question = '{"question": "Where to?"}'
    planner, model = planner_of(question, question, reply(subtask("1")), clarify=clarify)
    await planner.create_plan("Fly", [])
    assert asked == ["Where to?"]
    assert model.requests[1].messages[-1].content == "To Rome."
    assert '{"question"' in model.requests[0].messages[0].content


async def test_without_anyone_to_ask_the_model_assumes() -> None:
    planner, model = planner_of('{"question": "Where to?"}', reply(subtask("1")))
    await planner.create_plan("Do it")
    assert "no answer to questions" in model.requests[1].messages[-1].content
    assert '{"question"' not in model.requests[0].messages[0].content


async def test_a_plan_that_is_not_approved_is_refused() -> None:
    async def approve(task: Task) -> bool:
        return False

    planner, _ = planner_of(reply(subtask("1")), approve=approve)
    with pytest.raises(PlanNotApproved) as raised:
        await planner.create_plan("Do it")
    assert raised.value.task is not None


async def test_an_approval_may_change_the_plan() -> None:
    async def approve(task: Task) -> Task:
        return plan(subtask("1", "gone"), subtask("2"))

    planner, _ = planner_of(reply(subtask("1")), approve=approve)
    assert [(each.id, each.dependencies) for each in (await planner.create_plan("Do it")).subtasks] == [
        ("1", ()),
        ("2", ()),
    ]


async def test_a_goal_check_may_find_the_goal_wrong() -> None:
    async def check(task: Task) -> str:
        return "" if "Rome" in task.goal else "the goal does not name the city"

    planner, model = planner_of(*[reply(subtask("1"), goal="Fly")] * 2, goal_check=check)
    assert (await planner.create_plan("Fly to Rome")).goal == "Fly to Rome"
    assert "the goal does not name the city" in model.requests[1].messages[-1].content


async def test_an_error_of_the_model_is_raised() -> None:
    planner, _ = planner_of(Unavailable("down"))
    with pytest.raises(Unavailable):
        await planner.create_plan("Do it")


async def test_a_replan_sees_the_progress_and_keeps_results() -> None:
    done = plan(subtask("1"), subtask("2", "1"))
    done = done.update_subtask(done.subtasks[0].with_result("AB12"))
    done = done.update_subtask(done.subtasks[1].with_status(SubTaskStatus.FAILED))
    planner, model = planner_of(reply(subtask("3", "1")))
    task = await planner.replan(done, "subtask 2 failed 3 times", split=["2"])
    assert [(each.id, each.result) for each in task.subtasks] == [("1", "AB12"), ("3", None)]
    data = json.loads(model.requests[0].messages[-1].content)
    assert [each["status"] for each in data["progress"]] == ["completed", "failed"]
    assert data["progress"][0]["result"] == "AB12"
    assert (data["reason"], data["split"]) == ("subtask 2 failed 3 times", ["2"])


async def test_a_repaired_replan_repeats_no_completed_step() -> None:
    same = reply(subtask("1", tool_name="serach", tool_args={"query": "it"}), subtask("2", "1", critical=True))
    planner, _ = planner_of(*[same] * 4)
    made = await planner.create_plan("Do it", [search])
    assert made.subtasks[0].tool_name == "search", "it was repaired"
    made = made.update_subtask(made.subtasks[0].with_result("found"))
    made = made.update_subtask(made.subtasks[1].with_status(SubTaskStatus.FAILED))
    again = await planner.replan(made, "subtask 2 failed", [search])
    assert [(each.id, each.status, each.dependencies) for each in again.subtasks] == [
        ("1", SubTaskStatus.COMPLETED, ()),
        ("2", SubTaskStatus.PENDING, ("1",)),
    ]


async def test_a_replan_with_nothing_to_do_is_an_error() -> None:
    done = plan(subtask("1"))
    done = done.update_subtask(done.subtasks[0].with_result("AB12"))
    planner, _ = planner_of(*[reply(subtask("1"))] * 2)
    with pytest.raises(EmptyPlan):
        await planner.replan(done, "why not")
    assert carry_over(done, done) == done


async def test_a_plan_without_a_key_is_made_offline() -> None:
    task = await create_plan("Calculate 15 * 24 and then search for facts about it", [Calculator(), search])
    assert [(each.tool_name, dict(each.tool_args), each.dependencies) for each in task.subtasks] == [
        ("calculator", {"expression": "15 * 24"}, ()),
        ("search", {"query": "search for facts about it"}, ("1",)),
    ]


async def test_a_plan_is_made_by_the_model_that_is_given() -> None:
    assert len((await create_plan("Do it", model=ScriptedModel([reply(subtask("1"))]))).subtasks) == 1


async def test_many_faults_are_shortened_for_the_model() -> None:
    planner, model = planner_of(reply(*(subtask(str(n), "x") for n in range(15))), reply(subtask("1")), max_subtasks=5)
    await planner.create_plan("Do it", [])
    assert "the plan has 15 subtasks; at most 5 are allowed" in model.requests[1].messages[-1].content


def test_roles_may_be_names_alone() -> None:
    assert Planner(ScriptedModel(), roles=["writer"]).roles == {"writer": ""}


@pytest.mark.parametrize(
    "text",
    [
        reply(subtask("1", tool_name="a", tool_args={"x": [1]}, confidence=0.5, critical=True, expand=False)),
        '{"question": "Which city?"}',
        '{"template": "trip", "arguments": {"city": "Rome"}}',
    ],
)
def test_every_kind_of_reply_matches_the_schema(text: str) -> None:
    jsonschema.Draft202012Validator(dict(REPLY_SCHEMA)).validate(json.loads(text))


@pytest.mark.parametrize(("family", "form"), [("vllm", "json_schema"), ("groq", "json_object"), ("tgi", None)])
async def test_plan_is_enforced_as_far_as_the_server_can(family: str, form: str | None) -> None:
    async with OpenAIServer() as server:
        server.script(Answer(events=[chunk({"content": reply(subtask("1"))}), chunk(finish="stop")]))
        model = OpenAIModel("m", base_url=server.url, server=family)
        task = await Planner(model).create_plan("Do it")
        await model.close()
        assert [each.id for each in task.subtasks] == ["1"]
        assert server.received[0].body.get("response_format", {}).get("type") == form


async def test_planner_asks_anthropic_for_no_tool() -> None:
    async with AnthropicServer() as server:
        server.script(anthropic.streamed(anthropic.text(0, reply(subtask("1"))), anthropic.stop()))
        model = AnthropicModel("m", base_url=server.url, api_key="k")
        assert len((await Planner(model).create_plan("Do it")).subtasks) == 1
        await model.close()
        assert "tools" not in server.received[0].body
