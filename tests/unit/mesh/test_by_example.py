"""What must hold by example: the calculator, tools that are slow or fail, and the loop with a scripted model."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from archon_mesh.agent import Agent, IterationLimit
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry, ToolResult, ToolResultStatus, tool
from archon_mesh.tools.builtin import Calculator
from tests.fixtures.virtual_time import in_virtual_time


def calculate(expression: str) -> ToolCall:
    return ToolCall("c", "calculator", f'{{"expression": "{expression}"}}')


class Sleep(Tool):
    name = "sleep"
    description = "Sleeps."
    parameters_schema = {"type": "object", "properties": {}}
    timeout = 0.5

    async def execute(self, **kwargs: Any) -> ToolResult:
        await asyncio.Event().wait()
        return ToolResult.success("awake")


async def test_the_calculator_gives_4_for_2_plus_2() -> None:
    result = await ToolExecutionEngine(ToolRegistry([Calculator()])).execute_tool_call(
        "calculator", {"expression": "2+2"}
    )
    assert (result.status, result.text) == (ToolResultStatus.SUCCESS, "4")


@in_virtual_time
async def test_a_tool_past_its_timeout_gives_a_result_not_an_error() -> None:
    result = await ToolExecutionEngine(ToolRegistry([Sleep()])).execute_tool_call("sleep", {})
    assert result.status is ToolResultStatus.TIMEOUT
    assert "0.5 s" in result.error_message


@pytest.mark.parametrize(
    ("question", "expression", "observed", "answer", "iterations"),
    [
        ("What is 15 * 3?", "15 * 3", "45", "It is 45.", 2),
        ("What is 15% of 200?", "15% of 200", "30", "15% of 200 is 30.", 3),
    ],
)
async def test_a_calculation_is_solved_in_few_iterations(
    question: str, expression: str, observed: str, answer: str, iterations: int
) -> None:
    model = ScriptedModel([calculate(expression), answer])
    agent = Agent("clerk", model=model, tools=[Calculator()])
    assert await agent.run_async(question) == answer
    assert model.requests[1].messages[-1].content == observed
    assert len(model.requests) <= iterations


@pytest.mark.parametrize("limit", [3, 5])
async def test_an_iteration_limit_stops_exactly_there(limit: int) -> None:
    model = ScriptedModel([calculate("1 + 1")] * 10)
    with pytest.raises(IterationLimit) as ended:
        await Agent("clerk", model=model, tools=[Calculator()], max_iterations=limit).run_async("?")
    assert len(model.requests) == limit
    assert ended.value.partial_answer.startswith("2")


@pytest.mark.parametrize("seed", range(5))
async def test_a_task_completes_though_its_tool_fails_at_random(seed: int) -> None:
    dice = random.Random(seed)

    @tool
    def weather(city: str) -> str:
        """Returns the weather in a city."""
        if dice.random() < 0.5:
            raise dice.choice([ConnectionError("refused"), ValueError("broken"), TimeoutError(), KeyError("x")])
        return f"sunny in {city}"

    calls = [ToolCall(f"c{number}", "weather", f'{{"city": "city {number}"}}') for number in range(4)]
    agent = Agent("clerk", model=ScriptedModel([calls, calls[:1], "done"]), tools=[weather])
    assert await agent.run_async("?") == "done"
    results = [message.content for message in agent.history if message.role == "tool"]
    assert len(results) == 5
    assert all(text.startswith(("sunny in", "Error")) for text in results)


async def test_a_new_tool_is_one_class_or_one_function() -> None:
    def double(number: int) -> int:
        """Doubles a number."""
        return number * 2

    agent = Agent(
        "clerk",
        model=ScriptedModel([[ToolCall("1", "double", '{"number": 4}'), calculate("8 / 2")], "done"]),
        tools=[double, Calculator()],
    )
    assert await agent.run_async("?") == "done"
    assert [message.content for message in agent.history if message.role == "tool"] == ["8", "4"]
