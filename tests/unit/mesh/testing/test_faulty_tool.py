"""A tool that fails by name: what its caller gets for each fault, and that it works when the fault is healed."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.llm import ToolCall
from archon_mesh.testing import FaultyTool, ScriptedModel, ToolFault, VirtualTime
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry, ToolResult, tool

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.usefixtures("clock_put_back")]


@tool(timeout=30, idempotent=True, retries=2)
async def weather(city: str) -> str:
    """Says the weather of a city."""
    return f"sunny in {city}"


def faulty(wrapped: Tool = weather) -> tuple[FaultyTool, ToolExecutionEngine]:
    faulty_tool = FaultyTool(wrapped)
    return faulty_tool, ToolExecutionEngine(ToolRegistry([faulty_tool]))


async def call(engine: ToolExecutionEngine) -> ToolResult:
    return await engine.execute_tool_call("weather", {"city": "Porto"})


FAULTS = [
    (ToolFault.RAISES, "error", "RuntimeError: the tool weather has failed", 1),
    (ToolFault.UNAVAILABLE, "error", "the service of the tool weather is down", 3),
    (ToolFault.TIMES_OUT, "timeout", "no answer within", 2),
]


@pytest.mark.parametrize(("fault", "status", "message", "calls"), FAULTS, ids=lambda value: str(value))
async def test_a_fault_of_a_tool(fault: ToolFault, status: str, message: str, calls: int) -> None:
    faulty_tool, engine = faulty()
    async with VirtualTime() as clock:
        async with faulty_tool.fault(fault):
            result = await call(engine)
            assert (result.status.value, faulty_tool.failed) == (status, calls)
            assert message in result.error_message
            assert clock.now >= (60 if fault is ToolFault.TIMES_OUT else 0)
        assert (await call(engine)).content == "sunny in Porto"


async def test_garbage_of_a_tool_is_a_result() -> None:
    faulty_tool, engine = faulty()
    async with faulty_tool.fault("garbage"):
        assert "sunny" not in str((await call(engine)).content)
    assert (await call(engine)).content == "sunny in Porto"


async def test_each_fault_of_a_tool_is_tested() -> None:
    assert {fault for fault, *_ in FAULTS} | {ToolFault.GARBAGE} == set(ToolFault)


async def test_an_agent_goes_on_after_a_fault_of_its_tool() -> None:
    faulty_tool, _ = faulty()
    script: list[Any] = [ToolCall(str(number), "weather", '{"city": "Porto"}') for number in (1, 2)]
    model = ScriptedModel([*script, "It is sunny."])
    async with VirtualTime(), faulty_tool.fault("raises", times=1):
        assert await Agent("a", model=model, tools=[faulty_tool]).run_async("?") == "It is sunny."
    assert "has failed" in model.requests[1].messages[-1].content
    assert model.requests[2].messages[-1].content == "sunny in Porto"


async def test_a_faulty_tool_is_declared_as_its_own() -> None:
    faulty_tool, _ = faulty()
    for name in ("name", "description", "parameters_schema", "timeout", "idempotent", "retries", "result_schema"):
        assert getattr(faulty_tool, name) == getattr(weather, name), name
    assert faulty_tool.validate_args({}) == weather.validate_args({})
    with pytest.raises(
        InvalidArgument, match="unknown fault 'slow'; there are raises, unavailable, times_out, garbage"
    ):
        faulty_tool.fault("slow")
