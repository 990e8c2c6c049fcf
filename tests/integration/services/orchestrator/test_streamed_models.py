"""What a model streams crosses the mesh: thinking, text and tool calls, to watchers and to front ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from archon.client import answer_text
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import RemoteAgent
from tests.e2e.terminal import Terminal
from tests.fixtures import anthropic_server as anthropic
from tests.fixtures import responses_server as responses
from tests.fixtures.anthropic_server import AnthropicServer
from tests.fixtures.mesh import Mesh
from tests.fixtures.openai_server import USAGE, Answer, OpenAIServer, chunk
from tests.fixtures.responses_server import ResponsesServer
from tests.fixtures.services import ServiceProcess

CLERK = """
name: clerk
model: ${ARCHON_MODEL}
tools: [clerk_tools:add]
role: {capabilities: [clerk.sums]}
"""
TOOLS = """
def add(a: int, b: int) -> int:
    \"\"\"Adds.\"\"\"
    return a + b
"""


def chat_answers() -> list[Answer]:
    """What each model says: it thinks, calls a tool, thinks again and answers."""
    parts = [
        {"index": 0, "id": "call_1", "function": {"name": "add", "arguments": '{"a": 2,'}},
        {"index": 0, "function": {"arguments": ' "b": 3}'}},
    ]
    calls = [chunk({"tool_calls": [part]}) for part in parts]
    think = [chunk({"reasoning_content": text}) for text in ("I must ", "add.")]
    first = [*think, *calls, chunk(finish="tool_calls"), chunk(usage=USAGE)]
    last = [chunk({"reasoning_content": "Done."}), chunk({"content": "It is 5."}), chunk(finish="stop")]
    return [Answer(events=first), Answer(events=[*last, chunk(usage=USAGE)])]


def anthropic_answers() -> list[Answer]:
    call = anthropic.tool_use(1, "call_1", "add", '{"a": 2,', ' "b": 3}')
    first = anthropic.streamed(anthropic.thinking(0, "I must add.", "sig1"), call, anthropic.stop("tool_use"))
    answer = anthropic.text(1, "It is", " 5.")
    return [first, anthropic.streamed(anthropic.thinking(0, "Done.", "sig2"), answer, anthropic.stop())]


def responses_answers() -> list[Answer]:
    call = responses.function_call(1, "call_1", "add", '{"a": 2,', ' "b": 3}')
    first = responses.streamed(responses.reasoning(0, "I must add."), call, responses.response())
    return [
        first,
        responses.streamed(responses.reasoning(0, "Done."), responses.text(1, "It is", " 5."), responses.response()),
    ]


PROVIDERS = [
    pytest.param(OpenAIServer, "openai", chat_answers, id="chat"),
    pytest.param(AnthropicServer, "anthropic", anthropic_answers, id="anthropic"),
    pytest.param(ResponsesServer, "openai-responses", responses_answers, id="responses"),
]


async def serve(mesh: Mesh, folder: Path, spec: str, url: str) -> None:
    """Serves the clerk as a process, with the model behind the URL."""
    (folder / "clerk.yaml").write_text(CLERK)
    (folder / "clerk_tools.py").write_text(TOOLS)
    variables = "ANTHROPIC" if spec.startswith("anthropic") else "OPENAI"
    process = ServiceProcess(
        "archon_services.agents",
        mesh.home,
        str(folder / "clerk.yaml"),
        ARCHON_MODEL=spec,
        ARCHON_REGISTRY=mesh.registry.address,
        **{f"{variables}_BASE_URL": url, f"{variables}_API_KEY": "some-key"},
    )
    await mesh.join_process(process)


@pytest.mark.parametrize(("server_type", "provider", "answers"), PROVIDERS)
async def test_thinking_and_tool_calls_reach_a_front_end(
    own_mesh: Mesh, tmp_path: Path, server_type: type[OpenAIServer], provider: str, answers: object
) -> None:
    mesh = own_mesh
    seen: list[Any] = []

    def texts(kind: str) -> str:
        return "".join(event.delta for event in seen if event.agent_name == "clerk" and event.type == kind)

    async with server_type() as server:
        await serve(mesh, tmp_path, f"{provider}/test-model", server.url)
        clerk = RemoteAgent("clerk", description="Adds.", orchestrator=mesh.orchestrator.address)
        for _ in range(3):  # a stream that breaks drops what is shown, and nothing else
            seen.clear()
            server.script(*answers())  # type: ignore[operator]
            model = ScriptedModel([ToolCall("c1", "clerk", '{"task": "2 + 3"}'), "The clerk says 5."])
            lead = Agent("lead", model=model, sub_agents=[clerk])
            assert await lead.run_async("2 + 3?", event_handlers=[seen.append]) == "The clerk says 5."
            if texts("THINKING_TEXT_MESSAGE_CONTENT").endswith("Done."):
                break
        await clerk.close()
    of_clerk = [event for event in seen if event.agent_name == "clerk"]
    kinds = [event.type for event in of_clerk]
    assert texts("THINKING_TEXT_MESSAGE_CONTENT") == "I must add.Done."
    assert texts("TEXT_MESSAGE_CONTENT") == "It is 5."
    assert json.loads(texts("TOOL_CALL_ARGS")) == {"a": 2, "b": 3}
    assert kinds.count("TOOL_CALL_ARGS") > 1, "they are shown while the model writes them"
    assert kinds.count("TOOL_CALL_START") == kinds.count("TOOL_CALL_END") == 1
    [result] = [event for event in of_clerk if event.type == "TOOL_CALL_RESULT"]
    assert result.content == "5"
    order = ["THINKING_TEXT_MESSAGE_START", "TOOL_CALL_START", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)


async def test_signed_thinking_returns_with_the_result_of_a_tool(own_mesh: Mesh, tmp_path: Path) -> None:
    async with AnthropicServer() as server:
        await serve(own_mesh, tmp_path, "anthropic/test-model", server.url)
        server.script(*anthropic_answers())
        run = (await own_mesh.client.submit("2 + 3?", roles=["clerk"], strategy="agent", wait=60)).run
        assert run.state == TaskState.COMPLETED, run.failure
        assert answer_text(run) == "It is 5."
        first, second = server.received
    assert [tool["name"] for tool in first.body["tools"]] == ["add"]
    assistant, user = second.body["messages"][-2:]
    assert assistant["content"][0] == {"type": "thinking", "thinking": "I must add.", "signature": "sig1"}
    assert user["content"][0]["tool_use_id"] == assistant["content"][1]["id"] == "call_1"
    records = [record async for record in own_mesh.client.records(run.run_id)]
    assert sum(record.kind == "model" for record in records) == 2


async def test_archon_run_shows_what_a_model_streams(own_mesh: Mesh, tmp_path: Path) -> None:
    mesh, terminal = own_mesh, Terminal(tmp_path)
    async with AnthropicServer() as server:
        await serve(mesh, tmp_path, "anthropic/test-model", server.url)
        server.script(*anthropic_answers())
        arguments = ("run", "--role", "clerk", "--orchestrator", mesh.orchestrator.address, "--json", "2 + 3?")
        result = await asyncio.to_thread(terminal.archon, *arguments)
    assert result.code == 0, result.err
    events = [json.loads(line) for line in result.out.splitlines()]
    assert "".join(event["thinking_delta"]["text"] for event in events if "thinking_delta" in event) == (
        "I must add.Done."
    )
    pieces = [event["tool_arguments_delta"] for event in events if "tool_arguments_delta" in event]
    assert len(pieces) > 1
    assert json.loads("".join(piece["text"] for piece in pieces)) == {"a": 2, "b": 3}
    assert {(piece["call_id"], piece["tool_name"]) for piece in pieces} == {("call_1", "add")}
    [call, _] = [event["tool_event"] for event in events if "tool_event" in event]
    assert json.loads(call["arguments_json"]) == {"a": 2, "b": 3}
