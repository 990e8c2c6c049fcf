"""Events for a front end: AG-UI's names and order, including those of sub-agents."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon.errors import Unavailable
from archon_mesh.agent import (
    Agent,
    AgentEvent,
    AgentEventsMiddleware,
    HookContext,
    Middleware,
    ModelParams,
    StreamChunk,
)
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelChunk, ModelRequest, ScriptedModel, ToolCallDelta, retry
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.tools import tool
from archon_mesh.tools.image import Image
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk
from tests.fixtures.scripted_model import says


@tool
def draw(size: int) -> Any:
    """Draws an image."""
    return Image(b"\x89PNG" * size)


def types(events: list[AgentEvent]) -> list[str]:
    return [event.type for event in events]


async def test_tool_and_image_events_are_in_ag_ui_order() -> None:
    events: list[AgentEvent] = []
    model = ScriptedModel([says("let me draw", ToolCall("c1", "draw", '{"size": 2}')), says("there")])
    await Agent("artist", model=model, tools=[draw]).run_async("?", event_handlers=[events.append])
    assert types(events) == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "IMAGE_MESSAGE_START",
        "IMAGE_MESSAGE_CONTENT",
        "IMAGE_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    dicts = [event.to_dict() for event in events]
    assert dicts[7]["content"] == "[image/png, 8 bytes]"
    assert dicts[9]["delta"] == "iVBOR4lQTkc="
    assert {"type", "timestamp", "runId", "rootRunId", "agentName", "toolCallId", "toolCallName"} <= dicts[4].keys()
    assert (dicts[-1]["result"], dicts[1]["messageId"] == dicts[3]["messageId"]) == ("there", True)


async def test_sub_agent_events_name_the_calling_run() -> None:
    events: list[AgentEvent] = []
    inner = Agent("poet", model=ScriptedModel([says("a verse")]))
    ask = says("", ToolCall("c", "poet", '{"task": "go"}'))
    watch = AgentEventsMiddleware("session-1", events.append)
    lead = Agent("lead", model=ScriptedModel([ask, says("done")]), sub_agents=[inner], middlewares=[watch])
    await lead.run_async("?")
    of_poet = [event for event in events if event.agent_name == "poet"]
    assert types(of_poet)[0] == "RUN_STARTED"
    assert types(of_poet)[-1] == "RUN_FINISHED"
    assert {event.parent_run_id for event in of_poet} == {events[0].run_id}
    assert {event.root_run_id for event in events} == {events[0].run_id}
    assert events[0].to_dict()["threadId"] == "session-1"
    assert types(events).count("RUN_STARTED") == 2
    begin, end = events.index(of_poet[0]), events.index(of_poet[-1])
    assert types(events[:begin])[-1] == "TOOL_CALL_END"
    assert types(events[end:])[1] == "TOOL_CALL_RESULT"


async def test_failed_run_ends_with_an_error_event() -> None:
    events: list[AgentEvent] = []
    with pytest.raises(Unavailable):
        await Agent("a", model=ScriptedModel([Unavailable("down")]), retries=0).run_async("?", None, [events.append])
    assert types(events) == ["RUN_STARTED", "RUN_ERROR"]
    assert events[-1].to_dict() | {"code": "UNAVAILABLE", "message": "down"} == events[-1].to_dict()


async def test_handler_may_be_async_and_may_raise_without_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[AgentEvent] = []

    def breaks(event: AgentEvent) -> None:
        raise OSError("the pipe is gone")

    async def keeps(event: AgentEvent) -> None:
        events.append(event)

    with caplog.at_level(logging.ERROR):
        assert await Agent("a", model=ScriptedModel([says("ok")])).run_async("?", None, [breaks, keeps]) == "ok"
    assert types(events)[-1] == "RUN_FINISHED"
    assert "breaks raised OSError on RUN_STARTED" in caplog.text


async def test_middleware_shared_by_two_agents_gets_each_event_once() -> None:
    events: list[AgentEvent] = []
    watch = AgentEventsMiddleware("s", events.append)
    inner = Agent("poet", model=ScriptedModel([says("a verse")]), middlewares=[watch])
    ask = says("", ToolCall("c", "poet", '{"task": "go"}'))
    await Agent("lead", model=ScriptedModel([ask, says("x")]), sub_agents=[inner], middlewares=[watch]).run_async("?")
    assert types(events).count("RUN_FINISHED") == 2


async def test_thinking_is_a_separate_message_and_not_in_the_answer() -> None:
    class Thinks(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            for piece in ("let me ", "see"):
                yield ModelChunk(thinking_delta=piece)
            yield ModelChunk(text_delta="yes")
            yield ModelChunk(reply=says("yes"))

    events: list[AgentEvent] = []
    assert await Agent("a", model=Thinks()).run_async("?", None, [events.append]) == "yes"
    thinking = "THINKING_TEXT_MESSAGE"
    assert types(events) == [
        "RUN_STARTED",
        f"{thinking}_START",
        f"{thinking}_CONTENT",
        f"{thinking}_CONTENT",
        f"{thinking}_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


class Streams(ScriptedModel):
    """Streams the given chunks; the first reply is that of the first stream."""

    def __init__(self, *streams: list[ModelChunk]) -> None:
        super().__init__()
        self._streams = list(streams)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        for piece in self._streams.pop(0):
            yield piece


def call_deltas(index: int, call_id: str, name: str, *arguments: str) -> list[ModelChunk]:
    first = ModelChunk(tool_call_delta=ToolCallDelta(index, call_id, name))
    return [first, *(ModelChunk(tool_call_delta=ToolCallDelta(index, arguments_delta=text)) for text in arguments)]


@pytest.mark.parametrize("call_id", ["c1", ""], ids=["with id", "without id"])
async def test_tool_arguments_stream_as_deltas(call_id: str) -> None:
    events: list[AgentEvent] = []
    call = ToolCall(call_id, "draw", '{"size": 2}')
    first = [
        ModelChunk(text_delta="hm"),
        *call_deltas(0, call_id, "draw", '{"si', 'ze": 2}'),
        ModelChunk(reply=says("hm", call)),
    ]
    last = [ModelChunk(text_delta="there"), ModelChunk(reply=says("there"))]
    await Agent("artist", model=Streams(first, last), tools=[draw]).run_async("?", None, [events.append])
    assert types(events)[1:10] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "IMAGE_MESSAGE_START",
    ]
    of_call = [event.to_dict() for event in events if event.type.startswith("TOOL_CALL")]
    assert {event["toolCallId"] for event in of_call} == {call_id or "call_1_1"}
    assert (of_call[0]["toolCallName"], [event["delta"] for event in of_call[1:3]]) == ("draw", ['{"si', 'ze": 2}'])
    assert types(events).count("TOOL_CALL_START") == types(events).count("TOOL_CALL_END") == 1


async def test_calls_of_a_broken_stream_are_ended_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.001)
    events: list[AgentEvent] = []
    broken = call_deltas(0, "c1", "draw", '{"si')
    whole = [
        *call_deltas(0, "c1", "draw", '{"size": 1}'),
        ModelChunk(reply=says("", ToolCall("c1", "draw", '{"size": 1}'))),
    ]
    model = Streams(broken, whole, [ModelChunk(reply=says("done"))])
    assert await Agent("artist", model=model, tools=[draw]).run_async("?", None, [events.append]) == "done"
    calls = [event.type.removeprefix("TOOL_CALL_") for event in events if event.type.startswith("TOOL_CALL")]
    assert calls == ["START", "ARGS", "END", "START", "ARGS", "END", "RESULT"]


async def test_stream_chunk_sees_pieces_of_tool_calls() -> None:
    seen: list[tuple[str, str]] = []

    class Watches(Middleware):
        def stream_chunk(self, chunk: StreamChunk, params: ModelParams) -> str:
            delta = chunk.tool_call_delta
            seen.append((chunk, delta.name + delta.arguments_delta if delta is not None else ""))
            return chunk.upper()

    first = [
        ModelChunk(text_delta="hm"),
        *call_deltas(0, "c1", "draw", '{"size"', ": 1}"),
        ModelChunk(reply=says("hm", ToolCall("c1", "draw", '{"size": 1}'))),
    ]
    model = Streams(first, [ModelChunk(reply=says("done"))])
    agent = Agent("artist", model=model, tools=[draw], middlewares=[Watches()])
    named: list[str] = []

    def note(hook: HookContext) -> None:
        assert hook.tool_call_delta is not None
        named.append(hook.tool_call_delta.name)

    agent.on("stream_chunk").when(lambda hook: hook.tool_call_delta is not None).handle(effects=note)
    assert await agent.run_async("?") == "done"
    assert seen == [("hm", ""), ("", "draw"), ("", '{"size"'), ("", ": 1}")]
    assert named == ["draw", "", ""]
    assert agent.history[1].content == "HM"
    assert agent.history[2].content == "[image/png, 4 bytes]", "a replacement changes no tool call"


async def test_stream_chunk_sees_thinking_and_cannot_replace_it() -> None:
    seen: list[tuple[str, str]] = []

    class Watches(Middleware):
        def stream_chunk(self, chunk: StreamChunk, params: ModelParams) -> str:
            seen.append((chunk, chunk.thinking_delta))
            return "replaced"

    events: list[AgentEvent] = []
    model = Streams([ModelChunk(thinking_delta="hm"), ModelChunk(text_delta="yes"), ModelChunk(reply=says("yes"))])
    agent = Agent("thinker", model=model, middlewares=[Watches()])
    hooked: list[str] = []
    agent.on("stream_chunk").handle(effects=lambda hook: hooked.append(hook.thinking_delta))
    assert await agent.run_async("?", None, [events.append]) == "replaced"
    assert seen == [("", "hm"), ("yes", "")]
    assert hooked == ["hm", ""]
    thinking = [event.to_dict() for event in events if event.type == "THINKING_TEXT_MESSAGE_CONTENT"]
    assert [event["delta"] for event in thinking] == ["hm"]


async def test_openai_endpoint_streams_tool_arguments() -> None:
    def delta(**function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "function": function} | ({"id": "c9"} if "name" in function else {})]}

    calls = [chunk(delta(name="draw", arguments="")), chunk(delta(arguments='{"size"')), chunk(delta(arguments=": 1}"))]
    events: list[AgentEvent] = []
    async with OpenAIServer() as server:
        server.script(
            Answer(events=[*calls, chunk({}, "tool_calls")]), Answer(events=[chunk({"content": "ok"}, "stop")])
        )
        model = OpenAIModel("m", base_url=server.url, api_key="secret-0123456789")
        assert await Agent("artist", model=model, tools=[draw]).run_async("?", None, [events.append]) == "ok"
        await model.close()
    of_call = [event.to_dict() for event in events if event.type.startswith("TOOL_CALL")]
    assert [event["type"].removeprefix("TOOL_CALL_") for event in of_call] == ["START", "ARGS", "ARGS", "END", "RESULT"]
    assert [event["delta"] for event in of_call[1:3]] == ['{"size"', ": 1}"]
