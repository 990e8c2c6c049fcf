"""Goals with files, from a client through a mesh to a model behind HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.client import Client, answer_text
from archon.errors import MessageTooLarge
from archon.submission import Goal
from archon.types import Part, Run, TaskState
from archon_mesh.agent import Agent
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.node import Role, agent_server
from archon_mesh.tools import Image, tool
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.media import JPEG, PNG, in_base64
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

LOCAL: dict[str, Any] = {"host": "127.0.0.1", "port": 0}
GOAL = [Part(text="What is this?"), Part(raw=PNG, filename="a.png", media_type="image/png")]


@tool
def photograph() -> Image:
    """Takes a picture."""
    return Image(JPEG, "image/jpeg")


class Viewer:
    """A stateful role in a mesh, and the server of its model."""

    def __init__(self, client: Client, server: OpenAIServer) -> None:
        self.client = client
        self._server = server

    async def ask(self, goal: Goal, session: str = "") -> Run:
        submit = self.client.submit(goal, roles=["viewer"], session_id=session, wait=20)
        return (await submit).run

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """Returns the messages of a request to the model."""
        messages: list[dict[str, Any]] = self._server.received[number].body["messages"]
        return messages

    async def records(self, run_id: str) -> list[Any]:
        records = [record async for record in self.client.records(run_id)]
        return [json.loads(record.request_json) for record in records]


@asynccontextmanager
async def viewing(media: list[str]) -> AsyncIterator[Viewer]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(OpenAIServer())
        registry = await stack.enter_async_context(registry_app(RegistrySettings(etcd="memory", **LOCAL)))
        settings = OrchestratorSettings(journal="memory", registry=registry, **LOCAL)
        orchestrator = await stack.enter_async_context(orchestrator_app(settings))
        model = OpenAIModel("m", base_url=server.url, server={"media": media})
        stack.push_async_callback(model.close)
        agent = await stack.enter_async_context(Agent("viewer", model=model, tools=[photograph]))
        role = Role("viewer", "You look.", stateful=True)
        await stack.enter_async_context(agent_server(role, agent, AgentSettings(registry=registry, **LOCAL)))
        client = await stack.enter_async_context(Client(orchestrator))
        yield Viewer(client, server)


def images(messages: list[dict[str, Any]]) -> list[str]:
    """Returns the images of a request, as data URLs."""
    parts = (part for message in messages if isinstance(message["content"], list) for part in message["content"])
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


async def test_the_model_sees_the_file_of_a_goal_and_of_its_session() -> None:
    async with viewing(["image"]) as viewer:
        run = await viewer.ask(GOAL, "s")
        assert run.state == TaskState.COMPLETED, run.failure
        url = f"data:image/png;base64,{in_base64(PNG)}"
        assert images(viewer.sent()) == [url]
        run = await viewer.ask("And its colour?", "s")
        assert "colour" in answer_text(run)
        assert images(viewer.sent()) == [url], "the history of the session has the file"
        assert [message["role"] for message in viewer.sent()] == ["user", "assistant", "user"]


async def test_a_file_that_the_model_does_not_take_fails_the_run_typed() -> None:
    async with viewing([]) as viewer:
        run = await viewer.ask(GOAL)
        assert run.state == TaskState.FAILED
        failure = run.failure
        assert failure is not None and failure.reason == "INVALID_ARGUMENT"
        assert "the model m does not take the file [a.png, image/png, 70 bytes]" in failure.message
        assert [violation.field for violation in failure.field_violations] == ["messages[0].files[0]"]
        assert [task.attempt for task in run.tasks] == [1], "it is not tried again"


async def test_a_file_at_a_url_is_fetched_by_the_provider() -> None:
    async with viewing(["image"]) as viewer:
        run = await viewer.ask([Part(text="And this?"), Part(url="https://x.org/a.jpg", media_type="image/jpeg")])
        assert run.state == TaskState.COMPLETED
        assert images(viewer.sent()) == ["https://x.org/a.jpg"]


@pytest.mark.parametrize("media", [["image"], []], ids=["sees", "blind"])
async def test_a_tools_picture_reaches_a_model_that_sees(media: list[str]) -> None:
    async with viewing(media) as viewer:
        call = {"index": 0, "id": "c1", "function": {"name": "photograph", "arguments": "{}"}}
        viewer._server.script(Answer(events=[chunk({"tool_calls": [call]}), chunk(finish="tool_calls")]))
        run = await viewer.ask("Take a picture.")
        assert run.state == TaskState.COMPLETED, run.failure
        assert len(images(viewer.sent())) == len(media)
        result = next(message for message in viewer.sent() if message["role"] == "tool")
        assert ("is not shown to you" in result["content"]) is (not media)


async def test_records_have_no_bytes_of_files() -> None:
    async with viewing(["image"]) as viewer:
        run = await viewer.ask(GOAL)

        [request] = await viewer.records(run.run_id)
        text = json.dumps(request)
        assert '"name": "a.png"' in text and in_base64(PNG)[:40] not in text


async def test_a_goal_above_the_limit_of_a_message_is_not_sent() -> None:
    async with viewing(["image"]) as viewer:
        with pytest.raises(MessageTooLarge, match="the goal has 5,000,0"):
            await viewer.ask([Part(raw=PNG + bytes(5_000_000), media_type="image/png")])
