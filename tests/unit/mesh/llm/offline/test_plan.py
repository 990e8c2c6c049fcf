"""The offline model as a planner."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan import SubTaskStatus
from archon_mesh.engine.plan.prompt import PlannerInput, planner_messages, progress_of
from archon_mesh.engine.plan.synthesis import synthesis_messages
from archon_mesh.llm import ModelRequest, create_model
from archon_mesh.llm.offline.plan import write_plan
from archon_mesh.llm.offline.reply import NOTICE
from archon_mesh.tools.builtin import Calculator
from tests.unit.mesh.engine.plan.plans import step, task_of

CALCULATOR = {
    "name": "calculator",
    "description": Calculator.description,
    "parameters": Calculator.parameters_schema,
}
LOOKUP = {
    "name": "look_up",
    "description": "Looks up facts in an encyclopedia.",
    "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
}


def plan(query: str, *tools: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    text = write_plan(planner_messages(PlannerInput(query, tools, **fields)))
    assert text is not None
    subtasks: list[dict[str, Any]] = json.loads(text)["subtasks"]
    return subtasks


def test_arithmetic_goes_to_the_calculator() -> None:
    assert plan("What is 15 * 24?", LOOKUP, CALCULATOR) == [
        {
            "id": "1",
            "description": "What is 15 * 24?",
            "tool_name": "calculator",
            "tool_args": {"expression": "15 * 24"},
            "dependencies": [],
        }
    ]


def test_without_a_calculator_arithmetic_goes_to_the_role_for_it() -> None:
    roles = {"mathematician": "Solves arithmetic and other maths.", "historian": "Knows facts and dates."}
    first, second = plan("15*24, and facts about 360", roles=roles)
    assert (first["role"], second["role"]) == ("mathematician", "historian")


def test_a_step_goes_to_the_tool_that_shares_most_words() -> None:
    (only,) = plan("Look up facts about Rome", CALCULATOR, LOOKUP)
    assert (only["tool_name"], only["tool_args"]) == ("look_up", {"topic": "Look up facts about Rome"})


def test_a_step_that_fits_nothing_is_left_to_thinking() -> None:
    (only,) = plan("Sing", CALCULATOR)
    assert "tool_name" not in only


def test_a_new_plan_leaves_out_what_is_done_and_what_failed() -> None:
    task = task_of(
        step("1", description="Look up facts about Rome").with_result("old"),
        step("2", "1", description="look up it", tool_name="look_up", status=SubTaskStatus.FAILED),
    )
    (only,) = plan(
        "Look up facts about Rome and then look up it", LOOKUP, progress=progress_of(task), reason="it failed"
    )
    assert only == {"id": "2", "description": "look up it", "dependencies": ["1"]}


def test_the_answer_of_a_plan_has_all_its_results() -> None:
    task = task_of(step("1").with_result(360), step("2", status=SubTaskStatus.FAILED, result="no"), step("3"))
    assert write_plan(synthesis_messages(task)) == "\n\n".join(
        [NOTICE, "## Do 1\n\n360", "## Do 2\n\nThere is no result: no", "## Do 3\n\nThere is no result."]
    )


async def test_the_offline_model_plans_when_it_is_asked_to() -> None:
    request = ModelRequest(planner_messages(PlannerInput("Find a hotel and then book it")))
    reply = await create_model("offline").generate(request)
    assert [each["id"] for each in json.loads(reply.text)["subtasks"]] == ["1", "2"]


@pytest.mark.parametrize("prompt", ["You are a poet.", "You plan trips."])
def test_other_prompts_ask_for_no_plan(prompt: str) -> None:
    assert write_plan([ChatMessage("system", prompt), ChatMessage("user", '{"query": "x"}')]) is None


@pytest.mark.parametrize("text", ["1+" * 10_000, "and " * 10_000, "(" * 20_000 + "1+1", "1 x " * 10_000, ";" * 200_000])
def test_a_hostile_query_is_split_in_seconds(text: str) -> None:
    started = time.process_time()
    assert len(plan(text, CALCULATOR)) <= 20
    assert time.process_time() - started < 20
