"""Items that roles publish beside their answers, over real processes: along edges of a run and in the shared memory."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from archon.agent import Answer, Item, TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import answer_text
from archon.errors import InvalidArgument
from archon.memory import MemoryGraphClient, PropagationPolicy
from archon.registry import DependsOn
from archon_mesh.agent import Agent, AgentEvent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import RemoteAgent
from archon_mesh.node.handler import agent_handler
from archon_mesh.tools import tool
from tests.fixtures.mesh import Mesh
from tests.fixtures.scripted_model import says
from tests.fixtures.waiting import eventually, hold
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

TOOLS, HISTORY = PropagationPolicy.TOOL_RESULTS, PropagationPolicy.FULL_HISTORY


@pytest.fixture
def names() -> tuple[str, str, str]:
    """Roles that no other test has."""
    suffix = uuid.uuid4().hex[:6]
    return f"source-{suffix}", f"reader-{suffix}", f"boss-{suffix}"


@tool
def measure() -> str:
    """Measures."""
    return "42 metres"


async def context_text(task: TaskContext) -> str:
    return "\n--\n".join(f"{item.role} ({item.policy}): {item.text}" for item in task.context)


@pytest.mark.parametrize(
    ("policy", "received"),
    [
        (PropagationPolicy.FINAL_RESPONSE_ONLY, "It is long."),
        (TOOLS, "42 metres\n\nAnswer:\nIt is long."),
        (HISTORY, "How long is it?"),
    ],
)
async def test_an_agents_tool_results_and_history_reach_the_roles_whose_edges_let_them_through(
    mesh: Mesh, troupe: Troupe, names: tuple[str, str, str], policy: PropagationPolicy, received: str
) -> None:
    source, reader, _ = names
    call = ToolCall(name="measure", id="call-1", arguments_json="{}")
    agent = Agent(source, tools=[measure], model=ScriptedModel([says("", call), says("It is long.")]))
    await troupe(source, agent_handler(agent, memory=""))
    await troupe(reader, context_text, depends_on=[DependsOn(source, policy)])
    session = uuid.uuid4().hex
    handle = await mesh.client.submit("How long is it?", roles=[source, reader], session_id=session, wait=20)
    answer = answer_text(handle.run)
    assert answer.startswith(f"{source} ({policy}): ")
    assert received in answer
    async with MemoryGraphClient(mesh.memory.address, session) as memory:

        async def stored() -> bool:
            items = await memory.pull_for(reader)
            return [received in item.content for item in items if item.policy == policy] == [True]

        await eventually(stored)


async def test_roles_that_work_at_the_same_time_receive_items_and_answers_as_they_come(
    mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]
) -> None:
    source, reader, boss = names
    begun, read_first = asyncio.Event(), asyncio.Event()
    received: list[list[str]] = []

    async def publishing(task: TaskContext) -> Answer:
        await asyncio.wait_for(begun.wait(), 20)
        task.publish("half")
        task.publish(Item("all of it", HISTORY))
        await asyncio.wait_for(read_first.wait(), 20)
        return Answer("whole")

    async def reading(task: TaskContext) -> str:
        received.append([item.text for item in task.context])
        begun.set()
        for expected in ("half", "whole"):

            async def arrived(text: str = expected) -> bool:
                return [item.text for item in task.context] == [text]

            await eventually(arrived)
            received.append([f"{item.role}: {item.text}" for item in task.context])
            read_first.set()
        return "done"

    async def coordinating(task: TaskContext) -> str:
        await asyncio.gather(task.delegate("publish", role=source), task.delegate("read", role=reader))
        return "both"

    await troupe(source, publishing)
    await troupe(reader, reading, depends_on=[source])
    await troupe(boss, coordinating, coordinator=True)
    handle = await mesh.client.submit("x", roles=[boss], wait=30)
    assert answer_text(handle.run) == "both"
    assert received == [[], [f"{source}: half"], [f"{source}: whole"]]
    events = await durable(handle)
    items = [event.item_published for event in of(events, "item_published")]
    assert [(item.parts[0].text, bool(item.sequence)) for item in items] == [("half", True), ("all of it", True)]
    results = [event.result for event in of(events, "result") if event.result.role == reader]
    assert [ref.seq for ref in results[0].used] == [
        event.seq for event in of(events, "result") if event.result.role == source
    ]


async def test_an_item_is_stored_in_the_shared_memory_before_the_answer(
    mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]
) -> None:
    source, reader, _ = names
    stored = asyncio.Event()

    async def publishing(task: TaskContext) -> str:
        task.publish(Item("a draft", metadata={"dev.archon.test/kind": "draft"}))
        await asyncio.wait_for(stored.wait(), 20)
        return "the answer"

    await troupe(source, publishing)
    await troupe(reader, context_text, depends_on=[source])
    session = uuid.uuid4().hex
    handle = await mesh.client.submit("x", roles=[source], session_id=session)
    async with MemoryGraphClient(mesh.memory.address, session) as memory:

        async def holds(text: str) -> bool:
            return [item.content for item in await memory.pull_for(reader)] == [text]

        await eventually(lambda: holds("a draft"))
        (item,) = await memory.pull_for(reader)
        assert item.metadata == {"dev.archon.test/kind": "draft"}
        stored.set()
        await eventually(lambda: holds("the answer"))
    run = await handle.result(20)
    assert answer_text(run) == "the answer"
    refs = [event.published.ref for event in of(await durable(handle), "published")]
    assert [ref.version for ref in refs] == sorted({ref.version for ref in refs})


async def test_an_item_without_text_is_refused(mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]) -> None:
    source, _, _ = names
    errors: list[InvalidArgument] = []

    async def publishing(task: TaskContext) -> str:
        try:
            task.publish("  ")
        except InvalidArgument as error:
            errors.append(error)
        return "done"

    await troupe(source, publishing)
    handle = await mesh.client.submit("x", roles=[source], wait=20)
    assert answer_text(handle.run) == "done"
    assert [str(error) for error in errors] == ["an item to publish needs a text"]
    assert not of(await durable(handle), "item_published")


async def test_a_role_is_told_its_policies_narrowest_first(
    mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]
) -> None:
    source, *readers = names
    first, second = sorted(readers)  # the edges of a run are in the order of their roles

    async def telling(task: TaskContext) -> str:
        return " ".join(task.publish_policies)

    async def reading(task: TaskContext) -> str:
        return await context_text(task)

    await troupe(source, telling)
    await troupe(first, reading, depends_on=[DependsOn(source, HISTORY)])
    await troupe(second, reading, depends_on=[DependsOn(source, PropagationPolicy.TOOL_RESULTS)])
    run = (await mesh.client.submit("x", roles=list(names), wait=20)).run
    assert answer_text(run).count("tool_results full_history") == 2


async def test_a_fork_reuses_the_items_of_an_answer(mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]) -> None:
    source, reader, _ = names
    failing = [True]

    async def publishing(task: TaskContext) -> Answer:
        return Answer("short", items=[Item("long", policy) for policy in task.publish_policies])

    async def reading(task: TaskContext) -> str:
        if failing.pop() if failing else False:
            raise InvalidArgument("not yet")
        return await context_text(task)

    await troupe(source, publishing)
    await troupe(reader, reading, depends_on=[DependsOn(source, HISTORY)])
    failed = await mesh.client.submit("x", roles=[source, reader], wait=20)
    assert failed.run.proto.failure.message
    forked = await mesh.client.fork(failed.run.run_id)
    assert answer_text(await forked.result(20)) == f"{source} (full_history): long"


async def test_thinking_reaches_the_watchers_of_a_run(mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]) -> None:
    source, _, _ = names
    heard = asyncio.Event()

    async def thinking(task: TaskContext) -> str:
        async with asyncio.timeout(20):
            while not heard.is_set():  # a watcher that has fallen behind does not receive what passes
                task.think("Hmm. ")
                await hold(0.1)
        task.write("Yes.")
        return "Yes."

    await troupe(source, thinking)
    handle = await mesh.client.submit("x", roles=[source])
    seen: list[run_pb2.RunEvent] = []
    async for event in mesh.client.watch(handle.run.run_id):
        seen.append(event.proto)
        if event.type == "thinking_delta":
            heard.set()
    deltas = [event.thinking_delta for event in seen if event.HasField("thinking_delta")]
    assert {(delta.role, delta.text) for delta in deltas} == {(source, "Hmm. ")}
    assert "".join(event.text_delta.text for event in seen) == "Yes."


async def test_a_remote_agents_thinking_is_an_event_of_its_caller(
    mesh: Mesh, troupe: Troupe, names: tuple[str, str, str]
) -> None:
    source, _, _ = names

    async def thinking(task: TaskContext) -> str:
        task.think("Hmm. ")
        task.write("Yes.")
        return "Yes."

    await troupe(source, thinking)
    remote = RemoteAgent(source, orchestrator=mesh.orchestrator.address)
    call = ToolCall("c1", source, '{"task": "Is it?"}')
    lead = Agent("lead", model=ScriptedModel([says("", call), says("It is.")]), sub_agents=[remote])
    events: list[AgentEvent] = []
    assert await lead.run_async("?", None, [events.append]) == "It is."
    types = [event.type for event in events if event.agent_name == source]
    assert types == [
        "RUN_STARTED",
        "THINKING_TEXT_MESSAGE_START",
        "THINKING_TEXT_MESSAGE_CONTENT",
        "THINKING_TEXT_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    await remote.close()
