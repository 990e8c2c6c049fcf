"""Tools of front ends: an agent calls them, the AG-UI run ends, and the run of the mesh goes on with the result."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from archon import AgentServer
from archon_mesh.agent.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from archon_mesh.people import HumanInputTool
from archon_mesh.tools import tool
from tests.fixtures.agui_mesh import Stream, follow_up, front_end, input_of, user
from tests.fixtures.http_gateway import OPERATOR, STRANGER, GatewayMesh
from tests.integration.services.gateway.agui.conftest import Studio

COLOUR = {
    "name": "set_colour",
    "description": "Colours the page.",
    "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
}
BLUE = ToolCall("1", "set_colour", '{"colour": "blue"}')
RED = ToolCall("2", "set_colour", '{"colour": "red"}')


@tool
async def look() -> str:
    """Looks."""
    return "a page"


def serving(mesh: GatewayMesh, *replies: Any, tools: Sequence[Any] = (look,)) -> tuple[AgentServer, ScriptedModel, str]:
    """Returns the server of a new role over a scripted model, the model, and the path of the role."""
    model, role = ScriptedModel(replies), f"decorator-{uuid.uuid4().hex[:8]}"
    agent = Agent("decorator", model=model, tools=list(tools))
    handler = agent_handler(agent, memory="")
    return AgentServer(role, handler=handler, settings=mesh.mesh.agent_settings()), model, f"/agui/{role}"


def the_call(stream: Stream) -> dict[str, Any]:
    """The call that a stream ends with: it has no result."""
    answered = {event["toolCallId"] for event in stream.all("TOOL_CALL_RESULT")}
    [call] = [event for event in stream.all("TOOL_CALL_START") if event["toolCallId"] not in answered]
    return call


def with_result(source: dict[str, Any], stream: Stream, content: str, **fields: Any) -> dict[str, Any]:
    """The input with which a front end goes on after the call that a stream ends with."""
    message = {"id": uuid.uuid4().hex, "role": "tool", "toolCallId": the_call(stream)["toolCallId"], "content": content}
    [*_, snapshot] = stream.all("MESSAGES_SNAPSHOT")
    return follow_up(source, messages=[*snapshot["messages"], {**message, **fields}])


def tool_texts(model: ScriptedModel) -> list[str]:
    """The results of tools that the model was shown last."""
    return [message.content for message in model.requests[-1].messages if message.role == "tool"]


async def test_a_call_ends_the_run_and_its_result_continues_it(studio: Studio) -> None:
    server, model, path = serving(studio.mesh, [ToolCall("0", "look", "{}"), BLUE], "It is blue.")
    source = input_of(user("decorate"), tools=[COLOUR])
    async with server, front_end(studio.mesh, OPERATOR, path) as ui:
        called = await ui.run(source)
        assert called.outcome == "success"
        call = the_call(called)
        assert call["toolCallName"] == "set_colour"
        arguments = [
            event["delta"] for event in called.all("TOOL_CALL_ARGS") if event["toolCallId"] == call["toolCallId"]
        ]
        assert json.loads("".join(arguments)) == {"colour": "blue"}
        assert (await ui.run(source)).types[-1] == "RUN_FINISHED"  # attached again: no second run
        answered = with_result(source, called, "coloured")
        done = await ui.run(answered)
        assert (done.outcome, done.texts) == ("success", ["It is blue."])
        assert not done.all("TOOL_CALL_START"), "the front end has executed the call"
        again = await ui.run(answered)
        assert again.texts == done.texts
    assert [spec.name for spec in model.requests[0].tools] == ["look", "set_colour"]
    assert len(model.requests) == 2 and sorted(tool_texts(model)) == ["a page", "coloured"]


async def test_each_of_several_calls_gets_its_own_result(studio: Studio) -> None:
    server, model, path = serving(studio.mesh, [BLUE, RED], "Both.")
    source = input_of(user("decorate"), tools=[COLOUR])
    async with server, front_end(studio.mesh, OPERATOR, path) as ui:
        first = await ui.run(source)
        next_input = with_result(source, first, "blue done")
        second = await ui.run(next_input)
        assert the_call(second)["toolCallId"] != the_call(first)["toolCallId"]
        done = await ui.run(with_result(next_input, second, "red done"))
    assert done.texts == ["Both."]
    assert tool_texts(model) == ["blue done", "red done"]


async def test_an_error_of_the_front_end_is_a_failed_call(studio: Studio) -> None:
    server, model, path = serving(studio.mesh, [BLUE], "It cannot be blue.")
    source = input_of(user("decorate"), tools=[COLOUR])
    async with server, front_end(studio.mesh, OPERATOR, path) as ui:
        called = await ui.run(source)
        done = await ui.run(with_result(source, called, "", error="there is no paint"))
    assert done.texts == ["It cannot be blue."]
    assert "there is no paint" in tool_texts(model)[0]


async def test_a_thread_with_a_call_takes_nothing_else(studio: Studio) -> None:
    server, _, path = serving(studio.mesh, [BLUE], "Blue.", "Hello.")
    source = input_of(user("decorate"), tools=[COLOUR])
    async with server, front_end(studio.mesh, OPERATOR, path) as ui:
        called = await ui.run(source)
        assert (await ui.run(follow_up(source, messages=[*source["messages"], user("and?")]))).outcome == (
            "INTERRUPTS_PENDING"
        )
        answered = with_result(source, called, "coloured")
        assert (await ui.run(answered)).texts == ["Blue."]
        other = await ui.http.post(path, json=with_result(source, called, "something else"))
        assert other.status_code == 400 and "another answer" in other.text
        later = await ui.run(follow_up(answered, messages=[*answered["messages"], user("hello")]))
        assert later.texts == ["Hello."]  # the result is history now


async def test_a_result_of_an_unknown_call_is_refused(studio: Studio) -> None:
    server, _, path = serving(studio.mesh, [BLUE], "Blue.")
    source = input_of(user("decorate"), tools=[COLOUR])
    async with server, front_end(studio.mesh, OPERATOR, path) as ui, front_end(studio.mesh, STRANGER, path) as other:
        answered = with_result(source, await ui.run(source), "coloured")
        forged = {**answered["messages"][-1], "toolCallId": "run.1/front-end:t1"}
        elsewhere = await ui.http.post(path, json={**answered, "threadId": uuid.uuid4().hex})
        stranger = await other.http.post(path, json=answered)
        unknown = await ui.http.post(path, json={**answered, "messages": [*source["messages"], forged]})
        assert {elsewhere.status_code, stranger.status_code, unknown.status_code} == {404}


async def test_a_person_and_the_front_end_are_asked_in_one_thread(studio: Studio) -> None:
    ask = ToolCall("9", "human_input", '{"question": "Which room?"}')
    server, model, path = serving(studio.mesh, [BLUE], [ask], "Done.", tools=[HumanInputTool()])
    source = input_of(user("decorate"), tools=[COLOUR])
    async with server, front_end(studio.mesh, OPERATOR, path) as ui:
        answered = with_result(source, await ui.run(source), "coloured")
        asked = await ui.run(answered)
        [interrupt] = asked.interrupts
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "the hall"}]
        done = await ui.run(follow_up(source, messages=asked.all("MESSAGES_SNAPSHOT")[-1]["messages"], resume=resume))
    assert done.texts == ["Done."]
    assert tool_texts(model)[0] == "coloured"
