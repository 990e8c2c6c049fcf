"""Agents that exchange messages while they work: a request for help, an answer, and news for everybody."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from archon import AgentServer, TaskContext
from archon.agent import DirectMessages
from archon.types import HelpRequest, Message, MessageType
from archon_mesh.agent import Agent
from archon_mesh.llm import ModelRequest, ScriptedModel, ToolCall
from archon_mesh.messages import MessageBus
from archon_mesh.node import Role, agent_server
from archon_mesh.testing import InProcessMesh

writer, researcher = AgentServer("writer"), AgentServer("researcher")


@writer.task
async def write(task: TaskContext) -> str:
    async for message in task.messages("type:status_update", timeout=5):
        if message.content == {"status": "ready"}:
            break
    answer = await task.request_help("How old is the bridge?", "researcher")
    await task.send("The text is complete.")
    return f"The bridge is {answer.text} years old."


@researcher.on_message()
async def answer(message: Message, task: TaskContext) -> str | None:
    if message.message_type is not MessageType.HELP_REQUEST:
        return None
    request = message.typed()
    assert isinstance(request, HelpRequest)
    return "360" if "bridge" in request.issue else "unknown"


@researcher.task
async def research(task: TaskContext) -> str:
    await task.send({"status": "ready"}, type="status_update")
    async for message in task.messages("broadcast"):
        if message.sender_id == "writer":
            break
    return "The bridge was built in 1665."


async def help_request(home: Path) -> str:
    async with InProcessMesh(home) as mesh:
        for agent in (writer, researcher):
            agent.settings = mesh.agent_settings()
        async with researcher, writer:
            run = await (await mesh.client.submit("Write about the bridge.", roles=["writer", "researcher"])).result(30)
    return next(answer.text for answer in run.answers if answer.role == "writer")


def last_result(request: ModelRequest) -> str:
    """A model that says what its last tool has returned."""
    return str(json.loads(request.messages[-1].content)["content"])


async def by_models(home: Path) -> str:
    question = ToolCall("1", "request_help", '{"role": "historian", "issue": "How old is the bridge?"}')
    poet = Agent("poet", model=ScriptedModel([question, last_result]), messages=True)
    historian = Agent("historian", model=ScriptedModel(["360 years"]), messages=["broadcast", "type:status_update"])
    async with InProcessMesh(home) as mesh, poet, historian:
        settings = mesh.agent_settings()
        async with (
            agent_server(Role("poet", "You write poems."), poet, settings),
            agent_server(Role("historian", "You know history."), historian, settings),
        ):
            run = await (await mesh.client.submit("A poem about the bridge.", roles=["poet"])).result(30)
    return run.answers[0].text


reader = AgentServer("reader")
news: list[Message] = []
told = asyncio.Event()


@reader.on_direct
async def handle(message: Message) -> None:
    news.append(message)
    told.set()


async def tell(registry: str) -> None:
    async with DirectMessages(registry) as direct:
        await direct.send({"status": "ready"}, "reader", type="status_update")


@reader.task
async def read(task: TaskContext) -> str:
    return "read"


async def directly(home: Path) -> str:
    async with InProcessMesh(home) as mesh:
        reader.settings = mesh.agent_settings()
        async with reader:
            await tell(mesh.registry.address)
            await asyncio.wait_for(told.wait(), 10)
    return f"{news[0].message_type}: {news[0].content}"


async def in_one_process() -> str:
    bus = MessageBus()
    inbox = bus.subscribe("researcher", "broadcast")

    async def answer_one() -> None:
        request = await anext(inbox)
        bus.reply(request, "researcher", "360")

    answering = asyncio.create_task(answer_one())
    reply = await bus.request_help("task-1", "How old is the bridge?", "researcher")
    await answering
    bus.publish(Message("writer", content="The text is complete."))
    return f"{reply.text}; {(await anext(inbox)).text}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(help_request(Path(folder))))  # noqa: T201
