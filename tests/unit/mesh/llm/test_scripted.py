"""The scripted model, with which agents are tested."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition, Unavailable
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, Usage

CALL = ToolCall("1", "add", '{"a": 1, "b": 2}')
HELLO = ModelRequest([ChatMessage("user", "hello")])


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def test_responses_are_given_in_their_order() -> None:
    reply = ModelReply("whole", (), Usage(1, 2), "other", "length")
    model = ScriptedModel(["text", CALL, [CALL, CALL], reply, Unavailable("down"), lambda request: "computed"])
    assert (await model.generate(HELLO)).text == "text"
    one, two = await model.generate(HELLO), await model.generate(HELLO)
    assert (one.tool_calls, one.finish_reason, two.tool_calls) == ((CALL,), "tool_calls", (CALL, CALL))
    assert await model.generate(HELLO) is reply
    with pytest.raises(Unavailable, match="down"):
        await model.generate(HELLO)
    assert model.remaining == 1
    assert (await model.generate(HELLO)).text == "computed"
    assert model.requests == [HELLO] * 6


async def test_a_function_may_answer_all_requests() -> None:
    model = ScriptedModel(lambda request: request.messages[-1].content.upper())
    assert [(await model.generate(HELLO)).text for _ in range(3)] == ["HELLO"] * 3


async def test_a_script_that_is_used_up_says_so() -> None:
    agent = Agent("a", model=ScriptedModel(["one"]))
    await agent.run_async("first")
    with pytest.raises(FailedPrecondition, match=r"1 responses, and none for request 2, .* user: 'second'"):
        await agent.run_async("second")


async def test_text_and_calls_are_streamed_in_chunks() -> None:
    text = "one two three four five six"
    chunks = [chunk async for chunk in ScriptedModel([text]).stream(HELLO)]
    assert [chunk.text_delta for chunk in chunks] == ["one two three four ", "five six", ""]
    assert chunks[-1].reply is not None
    deltas = [chunk.tool_call_delta async for chunk in ScriptedModel([CALL]).stream(HELLO) if chunk.tool_call_delta]
    assert (deltas[0].id, deltas[0].name) == ("1", "add")
    assert "".join(delta.arguments_delta for delta in deltas) == CALL.arguments_json


async def test_usage_is_estimated_unless_a_reply_has_it() -> None:
    reply = await ScriptedModel(["12345678"]).generate(HELLO)
    assert reply.usage == Usage(2, 2, estimated=True)


async def test_an_agent_is_tested_with_a_script() -> None:
    model = ScriptedModel([CALL, "It is 3."])
    assert await Agent("a", model=model, tools=[add]).run_async("1+2?") == "It is 3."
    assert model.requests[1].messages[-1].content == "3"


def test_a_text_instead_of_a_list_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a list"):
        ScriptedModel("hello")
