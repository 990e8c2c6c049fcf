"""Events for a front end: AG-UI's names and order, including those of sub-agents."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon.errors import Unavailable
from archon_mesh.agent import Agent, AgentEvent, AgentEventsMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelChunk, ModelRequest
from archon_mesh.tools import tool
from archon_mesh.tools.image import Image
from tests.fixtures.scripted_model import ScriptedModel, says


@tool
def draw(size: int) -> Any:
    """Draws an image."""
    return Image(b"\x89PNG" * size)


def types(events: list[AgentEvent]) -> list[str]:
    return [event.type for event in events]


async def test_tool_and_image_events_are_in_ag_ui_order() -> None:
    events: list[AgentEvent] = []
    model = ScriptedModel(says("let me draw", ToolCall("c1", "draw", '{"size": 2}')), says("there"))
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
    inner = Agent("poet", model=ScriptedModel(says("a verse")))
    ask = says("", ToolCall("c", "poet", '{"task": "go"}'))
    watch = AgentEventsMiddleware("session-1", events.append)
    lead = Agent("lead", model=ScriptedModel(ask, says("done")), sub_agents=[inner], middlewares=[watch])
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
        await Agent("a", model=ScriptedModel(Unavailable("down")), retries=0).run_async("?", None, [events.append])
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
        assert await Agent("a", model=ScriptedModel(says("ok"))).run_async("?", None, [breaks, keeps]) == "ok"
    assert types(events)[-1] == "RUN_FINISHED"
    assert "breaks raised OSError on RUN_STARTED" in caplog.text


async def test_middleware_shared_by_two_agents_gets_each_event_once() -> None:
    events: list[AgentEvent] = []
    watch = AgentEventsMiddleware("s", events.append)
    inner = Agent("poet", model=ScriptedModel(says("a verse")), middlewares=[watch])
    ask = says("", ToolCall("c", "poet", '{"task": "go"}'))
    await Agent("lead", model=ScriptedModel(ask, says("x")), sub_agents=[inner], middlewares=[watch]).run_async("?")
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
