"""Tools of one agent, called by the model of another in runs of a real mesh."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.client import answer_text
from archon.errors import InvalidArgument, Unavailable
from archon.registry import Registration, Tool, ToolShare
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Role, agent_server, get_task
from archon_mesh.tools import DuplicateTool, HumanInputTool, Image, Secret, tell_progress, tool
from archon_mesh.tools.remote import RemoteTool
from tests.fixtures.lending_agent import lent
from tests.fixtures.media import PNG
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until

CALLS: list[str] = []


@tool(shared=True, credentials=["api_key"])
async def send(text: str, api_key: Secret) -> str:
    """Sends a text."""
    CALLS.append(text)
    tell_progress(f"sending {text}")
    if text == "fail":
        raise ValueError(f"no route with {api_key.reveal()}")
    return f"sent {text} with {api_key.reveal()}"


@tool(shared=True, idempotent=True, rate=3)
def measure(text: str) -> dict[str, int]:
    """Measures a text."""
    CALLS.append(text)
    tell_progress("measuring")
    return {"length": len(text)}


@tool(dangerous=True, shared=True)
def wipe() -> str:
    """Wipes a disk."""
    CALLS.append("wiped")
    return "wiped"


@tool
def picture() -> Image:
    """Returns a picture."""
    return Image(PNG, "image/png")


@tool
def private() -> str:
    """Is not shared."""
    return "private"


class World:
    """A mesh with an owner of tools; `caller` adds roles that call them."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self.mesh = mesh
        self.registry = mesh.registry.address
        self._stack = stack

    async def serve(self, role: str, agent: Agent) -> Any:
        await self._stack.enter_async_context(agent)
        settings = AgentSettings(registry=self.registry)
        return await self._stack.enter_async_context(agent_server(Role(role, "You work."), agent, settings))

    async def owner(self, role: str = "owner", **fields: Any) -> Any:
        fields = {"tools": [send, measure, wipe, picture, private], "credentials": {"api_key": "k-12345678"}, **fields}
        return await self.serve(role, Agent(role, model=ScriptedModel([]), **fields))

    async def ask(self, agent: Agent, role: str = "") -> Any:
        await self.serve(role or agent.name, agent)
        return (await self.mesh.client.submit("go", roles=[role or agent.name], wait=20)).run


@pytest.fixture
async def world(own_mesh: Mesh) -> AsyncIterator[World]:
    CALLS.clear()
    async with AsyncExitStack() as stack:
        yield World(own_mesh, stack)


def calling(name: str, arguments: str) -> ScriptedModel:
    """A model that calls a tool once and answers with its result."""

    def reply(request: Any) -> Any:
        results = [message.content for message in request.messages if message.role == "tool"]
        return f"it says: {results[-1]}" if results else ToolCall("c", name, arguments)

    return ScriptedModel(reply)


async def test_a_model_calls_a_tool_of_another_agent(world: World) -> None:
    owner = await world.owner()
    model = calling("send", '{"text": "hello"}')
    progress: list[str] = []
    remote = RemoteTool("send", registry=world.registry, on_progress=progress.append)
    run = await world.ask(Agent("caller", model=model, tools=[remote]))
    assert run.state == TaskState.COMPLETED, run.failure
    assert answer_text(run) == "it says: sent hello with ***"  # the owner's engine hides its credentials
    assert (CALLS, progress) == (["hello"], ["sending hello"])
    (spec,) = model.requests[0].tools
    assert (spec.name, spec.description) == ("send", "Sends a text.")
    assert spec.parameters_schema["required"] == ["text"] and "api_key" not in json.dumps(spec.parameters_schema)
    assert not owner.shared_tools.leases(), "the lease ends with the task"
    records = [record async for record in world.mesh.client.records(run.run_id, role="caller")]
    assert [record.target for record in records if record.kind == "tool"] == ["send"]
    assert owner.tool_health()[0].calls + sum(health.calls for health in owner.tool_health()[1:]) == 1


async def test_what_is_shared_follows_declaration_and_policy(world: World) -> None:
    owner = await world.owner()
    shared = {each.name for each in owner.registration.tools if each.share is not None}
    assert shared == {"send", "measure"}
    named = await world.owner(
        "named", shared_tools=["private"], tool_policy={"allowed": ["wipe", "private"], "denied": ["measure"]}
    )
    shared = {each.name for each in named.registration.tools if each.share is not None}
    assert shared == {"wipe", "private"}


async def test_the_owner_keeps_its_permissions_and_limits(world: World) -> None:
    await world.owner()
    calls = [ToolCall(f"c{number}", "measure", json.dumps({"text": "x" * number})) for number in range(1, 5)]
    model = ScriptedModel([calls, lambda request: str([m.content for m in request.messages if m.role == "tool"])])
    run = await world.ask(Agent("caller", model=model, tools=[RemoteTool("measure", "owner", registry=world.registry)]))
    assert answer_text(run).count("length") == 3 and "times per minute" in answer_text(run)


async def test_a_failure_of_the_owner_has_its_kind_and_no_secret(world: World) -> None:
    await world.owner()
    agent = Agent(
        "caller", model=calling("send", '{"text": "fail"}'), tools=[RemoteTool("send", registry=world.registry)]
    )
    text = answer_text(await world.ask(agent))
    assert "no route with ***" in text and "k-1234" not in text and "Traceback" not in text


async def test_a_file_as_a_result_is_an_error(world: World) -> None:
    await world.owner(shared_tools=["picture"])
    agent = Agent("caller", model=calling("picture", "{}"), tools=[RemoteTool("picture", registry=world.registry)])
    assert "files" in answer_text(await world.ask(agent))


async def test_invalid_arguments_do_not_reach_the_owner(world: World) -> None:
    await world.owner()
    remote = RemoteTool("send", registry=world.registry)
    agent = Agent("caller", model=calling("send", '{"txt": "hello"}'), tools=[remote])
    assert "invalid arguments" in answer_text(await world.ask(agent)) and not CALLS


async def test_a_dangerous_remote_tool_needs_its_name_at_both_ends(world: World) -> None:
    await world.owner(tool_policy={"allowed": ["wipe"]})

    def caller(name: str, **options: Any) -> Agent:
        return Agent(name, model=calling("wipe", "{}"), tools=[RemoteTool("wipe", registry=world.registry)], **options)

    assert "dangerous" in answer_text(await world.ask(caller("careless")))
    assert not CALLS
    assert "wiped" in answer_text(await world.ask(caller("careful", tool_policy={"allowed": ["wipe"]})))


async def test_a_missing_owner_is_a_warning_until_it_comes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(lambda request: ",".join(tool.name for tool in request.tools) or "no tool")
    agent = Agent("caller", model=model, tools=[RemoteTool("send", "owner", registry=world.registry), private])
    with caplog.at_level(logging.WARNING):
        assert answer_text(await world.ask(agent)) == "private"
        second = (await world.mesh.client.submit("go", roles=["caller"], wait=20)).run
    assert answer_text(second) == "private"
    warnings = [record for record in caplog.records if "remote tool send" in record.message]
    assert len(warnings) == 1 and "no live instance of role owner" in warnings[0].message
    await world.owner()
    third = (await world.mesh.client.submit("go", roles=["caller"], wait=20)).run
    assert answer_text(third) == "private,send"


async def test_an_unreachable_registry_leaves_the_agent_working(caplog: pytest.LogCaptureFixture) -> None:
    tools = [RemoteTool(name, registry="127.0.0.1:1") for name in ("send", "wipe")]
    agent = Agent("caller", model=ScriptedModel(["fine"]), tools=tools)
    async with agent:
        assert await agent.run_async("go") == "fine"
    assert "remote tool send is not available" in caplog.text


async def test_a_retried_attempt_does_not_act_twice(world: World) -> None:
    await world.owner()
    attempts: list[int] = []

    def reply(request: Any) -> Any:
        results = [message.content for message in request.messages if message.role == "tool"]
        if results and get_task().attempt == 1:
            return Unavailable("the provider is down")
        attempts.append(get_task().attempt)
        return f"it says: {results[-1]}" if results else ToolCall("c", "send", '{"text": "once"}')

    tools = [RemoteTool("send", registry=world.registry)]
    agent = Agent("caller", model=ScriptedModel(reply), tools=tools, retries=0)
    run = await world.ask(agent)
    assert answer_text(run).startswith("it says: sent once")
    assert attempts[-1] == 2 and CALLS == ["once"]


async def test_equal_calls_at_other_places_are_calls_of_their_own(world: World) -> None:
    await world.owner()
    call = ToolCall("c", "send", '{"text": "again"}')
    model = ScriptedModel([[call, ToolCall("d", "send", call.arguments_json)], [call], "done"])
    await world.ask(Agent("caller", model=model, tools=[RemoteTool("send", registry=world.registry)]))
    assert CALLS == ["again"] * 3


async def test_a_cancelled_run_ends_the_call_at_the_owner(own_mesh: Mesh, world: World) -> None:
    async with lent(world.registry) as lender:
        lender.open.clear()
        agent = Agent(
            "caller", model=calling("double", '{"n": 1}'), tools=[RemoteTool("double", registry=world.registry)]
        )
        await world.serve("caller", agent)
        handle = await own_mesh.client.submit("go", roles=["caller"])
        async with asyncio.timeout(10):
            await lender.began.wait()
        await own_mesh.client.cancel(handle.run_id, "enough")
        await until(lambda: not lender.agent.shared_tools.running and not lender.agent.shared_tools.leases())


async def test_names_that_clash_are_refused_or_get_a_namespace(world: World) -> None:
    await world.owner()
    with pytest.raises(DuplicateTool, match="namespace"):
        Agent("caller", tools=[send, RemoteTool("send", registry=world.registry)])
    with pytest.raises(DuplicateTool):
        Agent("caller", tools=[RemoteTool("send", "a"), RemoteTool("send", "b")])
    remote = RemoteTool("send", "owner", registry=world.registry, namespace="owner")
    agent = Agent("caller", model=calling("owner.send", '{"text": "x"}'), tools=[send, remote])
    assert "sent x" in answer_text(await world.ask(agent))


async def test_two_roles_with_a_tool_of_one_name_are_told_apart(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with lent(world.registry, "alpha"), lent(world.registry, "beta") as beta:
        model = ScriptedModel(lambda request: ",".join(tool.name for tool in request.tools) or "no tool")
        agent = Agent("caller", model=model, tools=[RemoteTool("double", registry=world.registry)])
        assert answer_text(await world.ask(agent)) == "no tool"
        assert "the roles alpha, beta share a tool of this name" in caplog.text
        named = RemoteTool("double", "beta", registry=world.registry)
        other = Agent("named", model=calling("double", '{"n": 4}'), tools=[named])
        assert answer_text(await world.ask(other)) == "it says: 8" and beta.ledger == [4]


RECURSIVE = '{"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"$ref": "#/$defs/n"}}}'
DANGLING = '{"type": "object", "properties": {"a": {"$ref": "#/$defs/nothing"}}}'


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"type": 5}', "invalid"),
        ('{"type": "array"}', "does not describe an object"),
        ('{"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}}', "another document"),
        (json.dumps({"type": "object", "description": "x" * 40_000}), "larger"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested"),
    ],
)
async def test_a_schema_that_cannot_be_used_costs_that_tool(
    world: World, caplog: pytest.LogCaptureFixture, schema: str, why: str
) -> None:
    liar = Tool("double", "Lies.", schema, share=ToolShare(60))
    await world.mesh.directory.register(Registration(role="liar", address="127.0.0.1:9", tools=(liar,)))
    model = ScriptedModel(lambda request: ",".join(tool.name for tool in request.tools) or "no tool")
    remote = RemoteTool("double", registry=world.registry)
    assert answer_text(await world.ask(Agent("caller", model=model, tools=[remote, private]))) == "private"
    assert why in caplog.text


@pytest.mark.parametrize("schema", [RECURSIVE, DANGLING])
async def test_a_schema_that_refers_to_itself_or_nothing_breaks_no_call(world: World, schema: str) -> None:
    liar = Tool("double", "Lies.", schema, share=ToolShare(60))
    await world.mesh.directory.register(Registration(role="liar", address="127.0.0.1:9", tools=(liar,)))
    remote = RemoteTool("double", registry=world.registry)
    agent = Agent("caller", model=calling("double", '{"a": 1}'), tools=[remote])
    assert answer_text(await world.ask(agent)).startswith("it says:")


@pytest.mark.parametrize(
    "make",
    [
        lambda: tool(shared=True)(_wants_state),
        lambda: Agent("a", tools=[HumanInputTool()], shared_tools=["ask_human"]),
        lambda: Agent("a", tools=[RemoteTool("x", "r")], shared_tools=["x"]),
        lambda: Agent("a", tools=[private], shared_tools=["nothing"]),
    ],
)
def test_a_tool_that_cannot_be_shared_is_refused_when_declared(make: Any) -> None:
    with pytest.raises(InvalidArgument, match="cannot"):
        make()


def _wants_state(agent_state: Any) -> str:
    return "state"


async def test_a_tool_of_the_sdk_sees_the_task(world: World) -> None:
    async with lent(world.registry) as lender:
        agent = Agent(
            "caller", model=calling("double", '{"n": 1}'), tools=[RemoteTool("double", registry=world.registry)]
        )
        run = await world.ask(agent)
        task: Any = lender.calls[0].task
        assert (task.run_id, task.attempt) == (run.run_id, 1)
        assert task.task_id == run.tasks[0].task_id
