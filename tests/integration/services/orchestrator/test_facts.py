"""Facts that the tasks of a run establish, over a real mesh."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings, Fact, TaskContext
from archon.agent.facts import ARBITER_KEY, _fact_of
from archon.client import RunHandle, answer_text
from archon.memory import WorkingMemoryClient
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Arbitration, Role, agent_server, arbiter_handler
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually

Handler = Any


class Company:
    """Starts agents that know the memory service."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self._mesh = mesh
        self._stack = stack
        self.settings = AgentSettings(registry=mesh.registry.address, memory=mesh.memory.address)

    async def __call__(self, handler: Handler, role: str = "") -> str:
        role = role or f"finder-{uuid.uuid4().hex[:6]}"
        return await self.join(AgentServer(role, handler=handler, settings=self.settings))

    async def join(self, server: AgentServer) -> str:
        await self._stack.enter_async_context(server)

        async def known() -> bool:
            return bool(server._sessions)

        await eventually(known)
        return server.role

    async def fact(self, handle: RunHandle, name: str) -> Fact:
        async with WorkingMemoryClient(self._mesh.memory.address, handle.run_id) as values:
            fact = _fact_of(await values.get(f"fact.{name}"))
        assert fact is not None
        return fact


@pytest.fixture
async def company(mesh: Mesh) -> AsyncIterator[Company]:
    async with AsyncExitStack() as stack:
        yield Company(mesh, stack)


async def archivist(task: TaskContext) -> str:
    found = await task.facts.establish("Arches", 14)
    return f"{found.outcome} 14"


async def in_order(mesh: Mesh, *roles: str, **options: Any) -> RunHandle:
    """A run whose steps are executed one after the other by the roles."""
    steps = [
        {"id": f"s{n}", "description": "Count.", "role": role, "dependencies": [f"s{n - 1}"] if n else []}
        for n, role in enumerate(roles)
    ]
    plan = json.dumps({"goal": "x", "subtasks": steps})
    named = list(dict.fromkeys([*roles, *options.pop("others", ())]))
    return await mesh.client.submit("x", strategy="plan", plan=plan, roles=named, wait=30, **options)


async def test_a_fact_is_established_confirmed_and_contradicted(mesh: Mesh, company: Company) -> None:
    async def tourist(task: TaskContext) -> str:
        found = await task.facts.establish("arches", 12)
        return f"{found.outcome} {found.fact.value} {found.contradiction is not None}"

    first, other = await company(archivist), await company(tourist)
    handle = await in_order(mesh, first, first, other)
    assert answer_text(handle.run) == "contradicted 14 True"
    fact = await company.fact(handle, "arches")
    assert (fact.value, fact.role, len(fact.confirmed_by), fact.is_contested) == (14, first, 1, True)
    messages = [
        event.proto.message_sent.message async for event in handle.events() if event.proto.HasField("message_sent")
    ]
    assert len(messages) == 1


async def test_a_json_answer_is_compared_when_its_handler_returns(mesh: Mesh, company: Company) -> None:
    async def report(task: TaskContext) -> str:
        return json.dumps({"arches": 12, "colour": "red"})

    first, other = await company(archivist), await company(report)
    handle = await in_order(mesh, first, other)
    fact = await company.fact(handle, "arches")
    assert [(each.value, each.role, each.status) for each in fact.contradictions] == [(12, other, "open")]


async def test_a_typed_answer_of_a_model_is_compared(mesh: Mesh, company: Company) -> None:
    schema = {"type": "object", "properties": {"arches": {"type": "number"}}, "required": ["arches"]}
    agent = Agent("reporter", model=ScriptedModel(['{"arches": 13.9}']), output=schema)
    role = Role(f"reporter-{uuid.uuid4().hex[:6]}", "Reports.")
    reporter = await company.join(agent_server(role, agent, company.settings, memory=""))
    handle = await in_order(mesh, await company(archivist), reporter)
    fact = await company.fact(handle, "arches")
    assert (len(fact.confirmed_by), fact.contradictions) == (1, ())


async def test_an_arbiter_with_a_verifier_settles_what_a_report_contradicts(mesh: Mesh, company: Company) -> None:
    asked: list[str] = []

    async def report(task: TaskContext) -> str:
        return json.dumps({"arches": 12})

    async def verify(task: TaskContext) -> str:
        asked.append(task.text)
        return "PASS" if "The answer to check:\n12" in task.text else "FAIL"

    first, other, verifier = await company(archivist), await company(report), await company(verify)
    judge = AgentServer(
        f"judge-{uuid.uuid4().hex[:6]}",
        handler=arbiter_handler(None, Arbitration(ways=["verify"], verifier=verifier)),
        settings=company.settings,
    )
    arbiter = await company.join(judge)
    handle = await in_order(mesh, first, other, others=(arbiter, verifier), metadata={ARBITER_KEY: arbiter})
    fact = await company.fact(handle, "arches")
    (contradiction,) = fact.contradictions
    assert len(asked) == 2, contradiction
    assert (contradiction.way, contradiction.status) == ("verify", "replaced")
    assert (fact.value, fact.role, fact.is_contested) == (12, other, False)


async def test_an_answer_counts_though_the_facts_cannot_be_read(own_mesh: Mesh) -> None:
    ready, killed = asyncio.Event(), asyncio.Event()

    async def report(task: TaskContext) -> str:
        ready.set()
        await killed.wait()
        return '{"arches": 12}'

    async with AsyncExitStack() as stack:
        role = await Company(own_mesh, stack)(report)
        handle = await own_mesh.client.submit("x", roles=[role])
        await ready.wait()
        await own_mesh.memory.kill()
        killed.set()
        assert answer_text(await handle.result(20)) == '{"arches": 12}'
        await own_mesh.memory.start()
