"""A model that calls tools in the text format is like any other to its agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon_mesh.agent import Agent
from archon_mesh.agent.events.types import AgentEvent
from archon_mesh.core.messages import ORIGIN, ChatMessage, ToolCall
from archon_mesh.llm import (
    ModelChunk,
    ModelReply,
    ModelRequest,
    ParsingError,
    ScriptedModel,
    TextToolModel,
    ToolSpec,
    Usage,
    create_model,
)
from archon_mesh.llm.base import DECLINED
from archon_mesh.llm.text_format.answer_stream import AnswerStream
from archon_mesh.llm.text_format.prompt import MAX_QUOTED, REPAIR
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.scripted_model import says
from tests.unit.mesh.llm.text_format.corpus import read_corpus

ACTION = 'Thought: I multiply.\nAction: {"tool": "multiply", "arguments": {"a": 15, "b": 3}}'
ANSWER = "Thought: I know it.\nFinal Answer: It is 45."
SPEC = ToolSpec("multiply", "Multiplies.", {"type": "object", "properties": {"a": {"type": "integer"}}})
REQUEST = ModelRequest([ChatMessage("system", "You calculate."), ChatMessage("user", "15*3?")], [SPEC])


def multiply(a: int, b: int) -> int:
    """Multiplies."""
    return a * b


async def test_an_agent_calls_its_tools_in_plain_text() -> None:
    inner = ScriptedModel([ACTION, ANSWER])
    agent = Agent("a", system_prompt="You calculate.", model=TextToolModel(inner), tools=[multiply])
    assert await agent.run_async("What is 15 * 3?") == "It is 45."
    first, second = inner.requests
    assert first.tools == ()
    assert first.messages[0].content.startswith("You calculate.\n\n")
    assert "- multiply: Multiplies. {" in first.messages[0].content
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert second.messages[2].content == ACTION
    assert second.messages[3].content == "Observation: 45"
    call = next(message for message in agent.history if message.tool_calls)
    assert (call.content, call.tool_calls[0].name) == ("I multiply.", "multiply")


async def test_events_are_those_of_function_calling_and_have_no_markers() -> None:
    events: list[AgentEvent] = []
    agent = Agent("a", model=TextToolModel(ScriptedModel([ACTION, ANSWER])), tools=[multiply])
    await agent.run_async("?", None, [events.append])
    types = [event.type for event in events if event.type.startswith("TOOL_CALL")]
    assert types[0] == "TOOL_CALL_START"
    assert "TOOL_CALL_RESULT" in types
    texts = [event.to_dict()["delta"] for event in events if event.type == "TEXT_MESSAGE_CONTENT"]
    assert "".join(texts) == "I multiply.It is 45."


@pytest.mark.parametrize("streams", [False, True])
async def test_a_reply_that_cannot_be_read_is_asked_for_again(streams: bool) -> None:
    inner = ScriptedModel([says("I will multiply them."), says('{"tool": "multiply", "arguments": {"a": 1}}')])
    model = TextToolModel(inner)
    reply = (await everything(model))[-1].reply if streams else await model.generate(REQUEST)
    assert reply is not None
    assert reply.tool_calls == (ToolCall("", "multiply", '{"a": 1}'),)
    assert reply.usage == Usage(200, 20)
    assert inner.requests[1].messages[-2:] == (
        ChatMessage("assistant", "I will multiply them.", metadata={ORIGIN: "step"}),
        ChatMessage("user", REPAIR, metadata={ORIGIN: "note"}),
    )


@pytest.mark.parametrize("streams", [False, True])
async def test_a_model_that_never_keeps_to_the_format_fails_typed(streams: bool) -> None:
    inner = ScriptedModel(["word " * 10_000, 'Action: {"tool": "multiply", "argum'])
    with pytest.raises(ParsingError, match="does not keep to the text format") as caught:
        await (everything(TextToolModel(inner)) if streams else TextToolModel(inner).generate(REQUEST))
    assert caught.value.kind == "model.format"
    assert caught.value.message == (
        "the model scripted does not keep to the text format: "
        "the reply has no call and no final answer that can be read"
    )
    assert len(inner.requests) == 2
    assert len(inner.requests[1].messages[-2].content) == MAX_QUOTED


@pytest.mark.parametrize("streams", [False, True])
async def test_plain_prose_is_the_answer_if_the_model_says_nothing_else(streams: bool) -> None:
    model = TextToolModel(ScriptedModel([says("It is 45."), says("<think>Hm.</think>It is 45, as I said.")]))
    chunks = await everything(model) if streams else [ModelChunk(reply=await model.generate(REQUEST))]
    reply = chunks[-1].reply
    assert reply is not None
    assert sum(chunk.reply is not None for chunk in chunks) == 1
    assert "".join(chunk.text_delta for chunk in chunks) == ("It is 45, as I said." if streams else "")
    assert (reply.text, reply.tool_calls, reply.usage) == ("It is 45, as I said.", (), Usage(200, 20))


@pytest.mark.parametrize(
    "broken", ['{"tool": "multiply"', "<tool_call>", "I call 'tool': multiply, \"arguments\": {", ""]
)
async def test_a_call_that_is_broken_is_no_answer(broken: str) -> None:
    with pytest.raises(ParsingError):
        await TextToolModel(ScriptedModel([says("It is 45."), says(broken)])).generate(REQUEST)


async def test_a_final_answer_in_json_is_read_after_a_repair() -> None:
    model = TextToolModel(ScriptedModel(["45, I think", '{"final_answer": "45"}']))
    assert (await model.generate(REQUEST)).text == "45"


async def test_an_unknown_tool_is_passed_on() -> None:
    inner = ScriptedModel(['Action: {"tool": "divide", "arguments": {}}', "Final Answer: so be it"])
    agent = Agent("a", model=TextToolModel(inner), tools=[multiply])
    assert await agent.run_async("?") == "so be it"
    assert "multiply" in inner.requests[1].messages[-1].content


async def test_a_tool_is_found_whatever_its_case_and_takes_plain_text() -> None:
    spec = ToolSpec("search", "Searches.", {"properties": {"query": {"type": "string"}}, "required": ["query"]})
    model = TextToolModel(ScriptedModel(["Action: Search\nAction Input: weather in Paris"]))
    reply = await model.generate(ModelRequest(REQUEST.messages, [spec]))
    assert reply.tool_calls == (ToolCall("", "search", '{"query": "weather in Paris"}'),)


def schema(*names: str, required: tuple[str, ...] | None = None) -> dict[str, Any]:
    properties = {"properties": {name: {"type": "string"} for name in names}}
    return properties if required is None else {**properties, "required": list(required)}


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        (schema("query"), {"query": "stra\u00dfe"}),
        (schema("query", "limit", required=("limit",)), {"limit": "stra\u00dfe"}),
        (schema("query", "limit"), {"input": "stra\u00dfe"}),
        (schema("query", "limit", required=("query", "limit")), {"input": "stra\u00dfe"}),
        (schema("input", "query", required=("query",)), {"input": "stra\u00dfe"}),
        ({}, {"input": "stra\u00dfe"}),
    ],
    ids=["only one", "only one required", "two", "two required", "named input", "none declared"],
)
async def test_plain_text_is_the_only_argument(parameters: dict[str, Any], arguments: dict[str, str]) -> None:
    model = TextToolModel(ScriptedModel(["Thought: hm\nAction: find\nAction Input: stra\u00dfe"]))
    reply = await model.generate(ModelRequest(REQUEST.messages, [ToolSpec("find", "Finds.", parameters)]))
    (call,) = reply.tool_calls
    assert call == ToolCall("", "find", json.dumps(arguments, ensure_ascii=False))
    assert (reply.text, reply.finish_reason) == ("hm", "tool_calls")


@pytest.mark.parametrize("name", ["find", "Find"])
async def test_of_names_that_differ_in_case_the_same_one_is_called(name: str) -> None:
    tools = [ToolSpec("FIND", "", {}), ToolSpec("Find", "", {}), ToolSpec("find", "", {})]
    model = TextToolModel(ScriptedModel([f'Action: {{"tool": "{name}", "arguments": {{"a": 1}}}}']))
    reply = await model.generate(ModelRequest(REQUEST.messages, tools))
    assert reply.tool_calls == (ToolCall("", name, '{"a": 1}'),)


async def test_a_reply_that_was_cut_off_gives_no_call() -> None:
    cut = ModelReply("Action: search\nAction Input: weather in Par", (), Usage(1, 1), "m", "length")
    inner = ScriptedModel([cut, cut])
    with pytest.raises(ParsingError):
        await TextToolModel(inner).generate(REQUEST)


async def test_without_tools_every_text_is_an_answer() -> None:
    request = ModelRequest(REQUEST.messages)
    inner = ScriptedModel(["Paris.", "Thought: easy\nFinal Answer: Paris.", ACTION])
    model = TextToolModel(inner)
    assert [(await model.generate(request)).text for _ in range(3)] == ["Paris.", "Paris.", ACTION]
    assert list(inner.requests[0].messages) == REQUEST.messages


async def test_results_of_several_calls_are_one_message() -> None:
    calls = (ToolCall("1", "multiply", "{}"), ToolCall("2", "multiply", '{"a": 1}'))
    results = [ChatMessage("tool", "0", tool_call_id="1"), ChatMessage("tool", "1", tool_call_id="2")]
    inner = ScriptedModel([ANSWER])
    await TextToolModel(inner).generate(
        ModelRequest([ChatMessage("user", "?"), ChatMessage("assistant", "", calls), *results], [SPEC])
    )
    *_, called, observed = inner.requests[0].messages
    assert called.content.count("Action: ") == 2
    assert (observed.role, observed.content) == ("user", "Observation: 0\nObservation: 1")


async def test_the_answer_is_streamed_as_it_comes() -> None:
    text = "Final Answer: " + " ".join(f"word{number}" for number in range(40))
    chunks = await everything(TextToolModel(ScriptedModel([text])))
    deltas = [chunk.text_delta for chunk in chunks if chunk.text_delta]
    assert len(deltas) > 5
    assert "".join(deltas) == text.removeprefix("Final Answer: ")
    assert len(chunks) > len(deltas)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_what_is_streamed_begins_the_answer_that_is_parsed(size: int) -> None:
    for entry in read_corpus():
        stream = AnswerStream()
        pieces = [stream.feed(entry.reply[at : at + size]) for at in range(0, len(entry.reply), size)]
        assert "".join(pieces) == stream.emitted
        if stream.emitted:
            assert (entry.answer or "").startswith(stream.emitted), entry.id


async def test_the_name_of_a_model_chooses_the_text_format() -> None:
    async with OpenAIServer() as server:
        model = create_model("text/openai/some-model", base_url=server.url)
        assert isinstance(model, TextToolModel)
        assert model.model == "some-model"
        reply = await model.generate(ModelRequest([ChatMessage("user", "hello")], timeout=10))
        await model.close()
    assert reply.text == "echo: hello"
    assert "tools" not in json.dumps(server.received[0].body)


async def everything(model: TextToolModel) -> list[ModelChunk]:
    return [chunk async for chunk in model.stream(REQUEST)]


async def test_a_declined_reply_is_passed_on_as_it_is() -> None:
    declined = ModelReply("I cannot.", (), Usage(1, 1), "scripted", DECLINED)
    reply = await TextToolModel(ScriptedModel([declined])).generate(ModelRequest((ChatMessage("user", "?"),)))
    assert (reply.text, reply.finish_reason) == ("I cannot.", DECLINED)
