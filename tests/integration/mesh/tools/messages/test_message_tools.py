"""Models that exchange messages by their tools, in runs of a mesh."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.client import RunHandle
from archon.errors import Unavailable
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node import Role, agent_server
from archon_mesh.tools.messages import message_tools
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import durable, of


class Talks:
    """Serves agents that have the tools of messages until the end of the test."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self._mesh, self._stack, self._number = mesh, stack, uuid.uuid4().hex[:6]

    def name(self, role: str) -> str:
        return f"{role}-{self._number}"

    async def serve(self, role: str, model: ScriptedModel, **fields: Any) -> None:
        name = self.name(role)
        fields = {"messages": True, **fields}
        agent = await self._stack.enter_async_context(Agent(name, model=model, **fields))
        settings = AgentSettings(registry=self._mesh.registry.address)
        await self._stack.enter_async_context(agent_server(Role(name, "You work."), agent, settings))

    async def run(self, *roles: str) -> RunHandle:
        names = [self.name(role) for role in roles]
        handle = await self._mesh.client.submit("go", roles=names, wait=20)
        assert handle.run.state == TaskState.COMPLETED, handle.run.failure
        return handle

    def answer(self, handle: RunHandle, role: str) -> str:
        return next(answer.text for answer in handle.run.answers if answer.role == self.name(role))


@pytest.fixture
async def talks(mesh: Mesh) -> AsyncIterator[Talks]:
    async with AsyncExitStack() as stack:
        yield Talks(mesh, stack)


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"c-{tool}", tool, json.dumps(arguments))


def last_result(request: ModelRequest) -> Any:
    text = request.messages[-1].content
    return text if text.startswith("Error") else json.loads(text)


def reply_to_first(request: ModelRequest) -> ToolCall:
    (message,) = last_result(request)["messages"]
    assert message["waits_for_reply"]
    return call("reply", message_id=message["id"], content=f"answer to {message['content']['issue']}")


def content_of_result(request: ModelRequest) -> str:
    return f"I heard: {last_result(request)['content']}"


async def test_a_model_asks_the_model_of_another_role_for_help(talks: Talks) -> None:
    writer, researcher = talks.name("writer"), talks.name("researcher")
    research: list[Any] = [
        call("read_messages"),
        call("send_message", receiver=writer, content="ready"),
        call("read_messages", wait_seconds=20),
        reply_to_first,
        "researched",
    ]
    write: list[Any] = [
        call("read_messages", wait_seconds=20),
        call("request_help", role=researcher, issue="how old is the bridge?"),
        content_of_result,
    ]
    await talks.serve("researcher", ScriptedModel(research))
    await talks.serve("writer", ScriptedModel(write))
    handle = await talks.run("writer", "researcher")
    assert talks.answer(handle, "writer") == "I heard: answer to how old is the bridge?"
    assert len(of(await durable(handle), "message_sent")) == 3


async def test_help_of_a_role_that_does_not_read_is_a_task_of_it(talks: Talks) -> None:
    asking = call("request_help", role=talks.name("researcher"), issue="how old is the bridge?")
    await talks.serve("researcher", ScriptedModel(lambda request: f"360, {request.messages[-1].content[:3]}"))
    await talks.serve("writer", ScriptedModel([asking, content_of_result]))
    handle = await talks.run("writer")
    assert talks.answer(handle, "writer") == "I heard: 360, how"
    assert len(of(await durable(handle), "delegated")) == 1


async def test_a_retried_attempt_sends_its_messages_once(talks: Talks) -> None:
    sending = call("send_message", receiver=talks.name("reader"), content="the text is complete")
    write: list[Any] = [sending, sending, Unavailable("the model is away"), sending, sending, "written"]
    received: list[Any] = []

    def read(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            received.extend(last_result(request)["messages"])
        return "read" if len(received) == 2 else call("read_messages", wait_seconds=20 - len(received))

    await talks.serve("reader", ScriptedModel(read))
    await talks.serve("writer", ScriptedModel(write), retries=0)
    handle = await talks.run("reader", "writer")
    assert [message["content"] for message in received] == ["the text is complete"] * 2
    sent = of(await durable(handle), "message_sent")
    assert [event.message_sent.first_seq > 0 for event in sent] == [False, False, True, True]


async def test_a_model_learns_why_a_message_is_refused(talks: Talks) -> None:
    sending = call("send_message", receiver="absent", content="hello")
    await talks.serve("writer", ScriptedModel([sending, lambda request: str(last_result(request))]))
    handle = await talks.run("writer")
    expected = "Error NOT_FOUND (NO_RECEIVER): no task of the run receives messages for 'absent'"
    assert talks.answer(handle, "writer") == expected


async def test_help_that_does_not_come_is_a_failed_call(talks: Talks) -> None:
    writer, researcher = talks.name("writer"), talks.name("researcher")
    waiting: list[Any] = [
        call("read_messages"),
        call("send_message", receiver=writer, content="ready"),
        call("read_messages", wait_seconds=20),
        call("read_messages", wait_seconds=20),
        "read",
    ]

    def over(request: ModelRequest) -> ToolCall:
        outcome.append(last_result(request))
        return call("send_message", receiver=researcher, content="it is over")

    outcome: list[str] = []
    asking: list[Any] = [
        call("read_messages", wait_seconds=20),
        call("request_help", role=researcher, issue="?"),
        over,
        "written",
    ]
    await talks.serve("researcher", ScriptedModel(waiting))
    await talks.serve("writer", ScriptedModel(asking), messages=False, tools=message_tools(help_seconds=0.2))
    await talks.run("writer", "researcher")
    assert outcome == ["Error DEADLINE_EXCEEDED (DEADLINE_EXCEEDED): no reply came within 0.2 s"]
