"""The client of AG-UI for TypeScript as a front end of a mesh: it refuses each stream that breaks the protocol."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from archon import AgentServer
from archon_mesh.agent.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from tests.fixtures.agui_mesh import Painter, speak_when_watched
from tests.fixtures.http_gateway import OPERATOR, GatewayMesh, gateway_mesh
from tests.interop import builds, node22

pytestmark = pytest.mark.slow

WITHIN = 30.0


@pytest_asyncio.fixture(scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[GatewayMesh, Painter]]:
    painter = Painter()
    painter.watched.set()
    painter.released.set()
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with (
            gateway_mesh(Path(tmp_path_factory.mktemp("agui")), monkeypatch) as served,
            painter.server(served),
        ):
            yield served, painter


class Probe:
    """A front end: a program in TypeScript."""

    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self._program = program

    async def run(self, **parameters: Any) -> dict[str, Any]:
        """Runs the agent, and returns what the front end has then."""
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.write(json.dumps(parameters).encode() + b"\n")
        async with asyncio.timeout(WITHIN):
            seen: dict[str, Any] = json.loads(await self._program.stdout.readline())
        assert not seen["warnings"], seen["warnings"]  # of fields that the protocol does not have
        return seen


def program(name: str) -> tuple[str, str]:
    """Returns Node and the path of a program."""
    folder = builds.AGUI.require().parents[4]
    node = node22.find()
    assert node is not None
    return str(node), str(folder / name)


@asynccontextmanager
async def probe(mesh: GatewayMesh, agent: str = "/agui/painter") -> AsyncIterator[Probe]:
    token = mesh.headers(OPERATOR)["authorization"].removeprefix("Bearer ")
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *program("probe.ts"), mesh.url + agent, token, uuid.uuid4().hex, stdin=pipe, stdout=pipe, limit=2**22
    )
    try:
        yield Probe(started)
    finally:
        started.kill()
        await started.wait()


def contents(seen: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in seen["messages"]]


async def test_a_thread_has_the_messages_of_its_runs(mesh: tuple[GatewayMesh, Painter]) -> None:
    async with probe(mesh[0]) as front_end:
        first = await front_end.run(text="paint it")
        second = await front_end.run(text="paint more")
    assert first["outcome"] == second["outcome"] == "success"
    assert contents(first) == [("user", "paint it"), ("assistant", "did: paint it")]
    assert len(second["messages"]) == 4 and second["messages"][3]["content"].endswith("paint more")
    assert second["state"]["theme"] == "dark" and second["state"]["archon"]["run"]["state"] == "completed"


async def test_tool_calls_thinking_and_images_are_messages(mesh: tuple[GatewayMesh, Painter]) -> None:
    async with probe(mesh[0]) as front_end:
        tool = await front_end.run(text="tool use")
        image = await front_end.run(text="image please")
    assert tool["messages"][0]["role"] == "user"
    calls = [call for message in tool["messages"] for call in message.get("toolCalls", ())]
    results = [message for message in tool["messages"] if message["role"] == "tool"]
    assert len({call["id"] for call in calls}) == len(calls) == len(results)
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    assert image["messages"][-1]["role"] == "activity"


async def test_an_interrupt_is_resumed(mesh: tuple[GatewayMesh, Painter]) -> None:
    async with probe(mesh[0]) as front_end:
        asked = await front_end.run(text="ask for it")
        [interrupt] = asked["pendingInterrupts"]
        blocked = await front_end.run(text="something else")
        assert "pending interrupt" in blocked["outcome"]
        done = await front_end.run(resume=[{"interruptId": interrupt["id"], "status": "resolved", "payload": "blue"}])
        assert (done["outcome"], done["pendingInterrupts"]) == ("success", [])
        assert done["messages"][-1]["content"] == "painted blue"
        again = await front_end.run(text="ask once more")
        [interrupt] = again["pendingInterrupts"]
        given_up = await front_end.run(resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
    assert (given_up["outcome"], given_up["pendingInterrupts"]) == ("cancelled", [])


async def test_a_tool_of_the_front_end_is_called_and_answered(mesh: tuple[GatewayMesh, Painter]) -> None:
    parameters = {"type": "object", "properties": {"colour": {"type": "string"}}}
    tools = [{"name": "set_colour", "description": "Colours the page.", "parameters": parameters}]
    model = ScriptedModel([[ToolCall("1", "set_colour", '{"colour": "blue"}')], "It is blue."])
    handler = agent_handler(Agent("decorator", model=model), memory="")
    server = AgentServer("decorator", handler=handler, settings=mesh[0].mesh.agent_settings())
    async with server, probe(mesh[0], "/agui/decorator") as front_end:
        called = await front_end.run(text="decorate", tools=tools)
        [call] = called["messages"][-1]["toolCalls"]
        assert json.loads(call["function"]["arguments"]) == {"colour": "blue"}
        assert (called["outcome"], called["pendingInterrupts"]) == ("success", [])
        done = await front_end.run(result={"toolCallId": call["id"], "content": "coloured"}, tools=tools)
    assert [role for role, _ in contents(done)] == ["user", "assistant", "tool", "assistant"]
    assert done["messages"][-1]["content"] == "It is blue."


async def test_a_lost_stream_is_attached_again(
    mesh: tuple[GatewayMesh, Painter], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, painter = mesh
    speak_when_watched(painter, monkeypatch)
    run_id = uuid.uuid4().hex
    async with probe(served) as front_end:
        lost = await front_end.run(text="write it", runId=run_id, abortAt="TEXT_MESSAGE_CONTENT")
        painter.released.set()
        found = await front_end.run(runId=run_id)
    assert lost["outcome"] in ("none", "error abort")
    assert found["outcome"] == "success"
    assert [message["content"] for message in found["messages"] if message["role"] == "assistant"] == [
        "one two three and four"
    ]


async def test_the_program_of_the_page_chats_and_answers(mesh: tuple[GatewayMesh, Painter]) -> None:
    token = mesh[0].headers(OPERATOR)["authorization"].removeprefix("Bearer ")
    url = f"{mesh[0].url}/agui/painter"
    started = await asyncio.create_subprocess_exec(
        *program("chat.ts"), url, token, "approve it", "yes", stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(WITHIN):
        output, _ = await started.communicate()
    assert (started.returncode, output.decode()) == (0, "Pay 5 euros?\ndecided: approve\n")
