"""Swarms in a mesh: agents with models take the items of one list, each once."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import pytest

from archon.agent import AgentSettings, TaskContext
from archon.client import RunHandle, answer_text
from archon.errors import Unavailable
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.engine.plan import SubTask
from archon_mesh.llm import ModelRequest, ScriptedModel, ToolCall
from archon_mesh.node import Role, agent_server
from archon_mesh.people import ask_person
from archon_mesh.planning import swarm
from archon_mesh.tools import tool
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


def item_in(request: ModelRequest) -> str:
    """The item in the last message of a user."""
    return [each for each in request.messages if each.role == "user"][-1].content.rpartition("\n")[2]


class Swarm:
    """Instances of a role whose model is a function of the instance and the item."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self._mesh = mesh
        self._stack = stack
        self.role = f"worker-{uuid.uuid4().hex[:6]}"
        self.done: list[tuple[str, str]] = []

    async def join(self, name: str, reply: Callable[[ModelRequest], Any] | None = None, **agent: Any) -> None:
        def respond(request: ModelRequest) -> Any:
            if reply is not None:
                return reply(request)
            self.done.append((name, item_in(request)))
            return f"<{item_in(request)}>"

        settings = AgentSettings(registry=self._mesh.registry.address, memory=self._mesh.memory.address)
        worker = Agent(name, model=ScriptedModel(respond), **agent)
        await self._stack.enter_async_context(worker)
        role = Role(self.role, "Takes items.")
        server = agent_server(role, worker, settings, memory=self._mesh.memory.address)
        await self._stack.enter_async_context(server)

        async def known() -> bool:
            return bool(server._sessions)

        await eventually(known)

    async def run(self, *steps: SubTask, roles: tuple[str, ...] = (), **options: Any) -> RunHandle:
        plan = json.dumps({"goal": "do it", "subtasks": [asdict(step) for step in steps]})
        roles = roles or (self.role,)
        return await self._mesh.client.submit("do it", strategy="plan", plan=plan, roles=list(roles), **options)


def results(handle_run: Any) -> Any:
    assert handle_run.state == TaskState.COMPLETED, handle_run.failure
    return json.loads(handle_run.answers[0].parts[0].data_json or answer_text(handle_run))


@pytest.fixture
async def crew(mesh: Mesh) -> AsyncIterator[Swarm]:
    async with AsyncExitStack() as stack:
        yield Swarm(mesh, stack)


async def test_three_instances_do_fifty_items_once_each(crew: Swarm) -> None:
    for name in "abc":
        await crew.join(name)
    steps = swarm("Do it.", roles=[crew.role], items=[f"page-{n}" for n in range(50)])
    handle = await crew.run(*steps, wait=30)
    assert results(handle.run) == {"results": {str(n + 1): f"<page-{n}>" for n in range(50)}, "failed": {}}
    assert Counter(item for _, item in crew.done) == Counter(f"page-{n}" for n in range(50))
    assert len({name for name, _ in crew.done}) > 1
    dispatched = of(await durable(handle), "dispatched", crew.role)
    assert len({event.dispatched.instance_id for event in dispatched}) == 3


async def test_an_item_that_fails_in_every_hand_is_reported(crew: Swarm) -> None:
    def reply(request: ModelRequest) -> Any:
        item = item_in(request)
        crew.done.append(("any", item))
        return Unavailable("no luck") if item == "bad" else "good"

    for name in "abc":
        await crew.join(name, reply, retries=0)
    handle = await crew.run(*swarm("Do it.", roles=[crew.role], items=["a", "bad", "c"]), wait=30)
    found = results(handle.run)
    assert found["results"] == {"1": "good", "3": "good"}
    assert "no luck" in found["failed"]["2"]
    assert [item for _, item in crew.done].count("bad") == 3


async def test_the_first_step_lists_and_the_last_one_gathers(crew: Swarm) -> None:
    def reply(request: ModelRequest) -> Any:
        text = request.messages[-1].content
        if "List the items of work" in text:
            return '{"items": ["a", "b"]}'
        if "Make one answer of them" in text:
            return f"gathered {'<a>' in str(request.messages)} {'<b>' in str(request.messages)}"
        assert '"items"' not in str(request.messages), "an item is done without the others"
        return f"<{item_in(request)}>"

    for name in "ab":
        await crew.join(name, reply)
    steps = swarm("Do it.", roles=[crew.role], members=2, gather=crew.role)
    handle = await crew.run(*steps, wait=30)
    assert answer_text(handle.run) == "gathered True True"


async def test_a_tool_acts_once_for_each_item_with_the_same_arguments(crew: Swarm) -> None:
    calls: list[str] = []

    @tool
    def book() -> str:
        """Books a room."""
        calls.append("booked")
        return f"room {len(calls)}"

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return last.content if last.role == "tool" else ToolCall("1", "book", "{}")

    await crew.join("a", reply, tools=[book])
    handle = await crew.run(*swarm("Book.", roles=[crew.role], members=1, items=["x", "y", "z"]), wait=30)
    assert results(handle.run)["results"] == {"1": "room 1", "2": "room 2", "3": "room 3"}


async def test_an_item_whose_tool_asks_a_person_fails(crew: Swarm) -> None:
    @tool
    async def sign() -> str:
        """Has a person sign."""
        return str(await ask_person("Sign?"))

    await crew.join("a", lambda request: ToolCall("1", "sign", "{}"), tools=[sign])
    handle = await crew.run(*swarm("Sign.", roles=[crew.role], members=1, items=["x"]), wait=30)
    assert results(handle.run)["failed"] == {"1": "a member of a swarm cannot ask a person"}


async def test_a_handler_that_knows_no_lists_is_not_taken_for_a_member(mesh: Mesh, crew: Swarm, troupe: Troupe) -> None:
    stranger = f"stranger-{uuid.uuid4().hex[:6]}"

    async def ignore(task: TaskContext) -> str:
        return "all is done, believe me"

    await troupe(stranger, ignore)
    await crew.join("a")
    steps = swarm("Do it.", roles=[stranger, crew.role], members=2, items=["x", "y"])
    handle = await crew.run(*steps, roles=(stranger, crew.role), wait=30)
    assert results(handle.run)["results"] == {"1": "<x>", "2": "<y>"}


async def test_watchers_see_which_item_is_done(crew: Swarm) -> None:
    await crew.join("a")
    handle = await crew.run(*swarm("Do it.", roles=[crew.role], members=1, items=["x", "y"]))
    names = [event.proto.tool_event.tool_name async for event in handle.events() if event.proto.HasField("tool_event")]
    await handle.result(20)
    assert set(names) <= {"item 1 of 2", "item 2 of 2"}


async def test_two_swarms_of_a_run_have_lists_of_their_own(crew: Swarm) -> None:
    await crew.join("a")
    first = swarm("Do it.", roles=[crew.role], members=2, items=["x"], id="one")
    second = swarm("Do it.", roles=[crew.role], members=2, items=["x", "y"], id="two", dependencies=["one"])
    handle = await crew.run(*first, *second, wait=30)
    assert results(handle.run)["results"] == {"1": "<x>", "2": "<y>"}
    assert len(crew.done) == 3


async def test_a_swarm_survives_the_death_of_a_member(own_mesh: Mesh) -> None:
    ledger, role = own_mesh.home / "swarm.txt", "swarm-worker"
    environment: dict[str, Any] = {"SWARM_LEDGER": str(ledger), "ARCHON_MEMORY": own_mesh.memory.address}
    processes = {
        name: await own_mesh.agent_process(role, module="tests.fixtures.swarm_agent", SWARM_NAME=name, **environment)
        for name in ("anna", "berta")
    }

    def lines() -> list[str]:
        return ledger.read_text().splitlines() if ledger.exists() else []

    def victim() -> list[str]:
        return [line.split()[0] for line in lines() if line.endswith(" hang")]

    items = ["a", "b", "hang", "c", "d", "e"]
    plan = json.dumps(
        {"goal": "do", "subtasks": [asdict(step) for step in swarm("Do.", members=2, roles=[role], items=items)]}
    )
    handle = await own_mesh.client.submit("do", strategy="plan", plan=plan, roles=[role])
    await until(lambda: bool(victim()))
    await processes[victim()[0]].kill()
    found = results(await handle.result(60))
    (survivor,) = {"anna", "berta"} - {victim()[0]}
    assert found["results"]["3"] == f"hang by {survivor}"
    assert sorted(found["results"]) == ["1", "2", "3", "4", "5", "6"]
    takers = {item: [line.split()[0] for line in lines() if line.endswith(f" {item}")] for item in items}
    killed = victim()[0]
    assert takers["hang"] == [killed, survivor]
    # Another item is taken again only if the killed member had it, too, and its result had not arrived.
    assert all(names in ([killed], [survivor], [killed, survivor]) for names in takers.values())


async def test_a_swarm_survives_the_death_of_orchestrator_and_memory(own_mesh: Mesh) -> None:
    async with AsyncExitStack() as stack:
        crew, gate, reached = Swarm(own_mesh, stack), asyncio.Event(), asyncio.Event()

        @tool
        async def wait() -> str:
            """Waits."""
            reached.set()
            await gate.wait()
            return "waited"

        def reply(request: ModelRequest) -> Any:
            if item_in(request) == "hard" and request.messages[-1].role != "tool":
                return ToolCall("1", "wait", "{}")
            crew.done.append(("any", item_in(request)))
            return "done"

        for name in "ab":
            await crew.join(name, reply, tools=[wait])
        handle = await crew.run(*swarm("Do it.", roles=[crew.role], members=2, items=["a", "hard", "b", "c"]))
        await reached.wait()
        await own_mesh.memory.kill()
        await own_mesh.orchestrator.kill()
        await own_mesh.memory.start()
        await own_mesh.orchestrator.start()
        gate.set()
        found = results(await handle.result(60))
        assert found["results"] == dict.fromkeys("1234", "done")
        done = Counter(item for _, item in crew.done)
        assert done.keys() == {"a", "hard", "b", "c"} and done["hard"] == 1
        assert done.total() <= 5  # the result of one item may have been on its way to the memory that was killed
