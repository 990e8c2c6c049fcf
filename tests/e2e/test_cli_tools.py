"""`archon tools`: how the calls of the tools of running agents have ended."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2
from archon.channel import agent_options, connect
from archon.registry import Tool, ToolShare
from archon.tools import FoundTool, ToolClient
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Role, agent_server
from archon_mesh.tools import tool
from archon_services.cli.render.shared_tools import cells_of, rows_of
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.e2e.terminal import Terminal
from tests.fixtures.lending_agent import lent
from tests.fixtures.scripted_model import says

LOCAL: dict[str, Any] = {"host": "127.0.0.1", "port": 0}


@tool(version="2.1.0")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fails."""
    raise RuntimeError("out of order")


@pytest.fixture
async def registry() -> AsyncIterator[str]:
    """The address of a registry with an agent that has called `add` twice and `fail` once, and one without health."""
    model = ScriptedModel(
        [
            says("", ToolCall("1", "add", '{"a": 1, "b": 2}')),
            says("", ToolCall("2", "fail", "{}"), ToolCall("3", "add", '{"a": 3, "b": 4}')),
            says("done"),
        ]
    )
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(registry_app(RegistrySettings(etcd="memory", **LOCAL)))
        settings = AgentSettings(registry=address, **LOCAL)
        agent = await stack.enter_async_context(
            Agent("clerk", system_prompt="You calculate.", model=model, tools=[add, fail])
        )
        clerk = agent_server(Role("clerk", "You calculate."), agent, settings)
        await stack.enter_async_context(clerk)
        silent = AgentServer("foreign", tools=clerk.registration.tools[:1], settings=settings)
        silent.task(lambda task: "done")
        await stack.enter_async_context(silent)
        async with connect(clerk.address, agent_options()) as channel:
            stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
            task = agent_pb2.AssignTask(input=[common_pb2.Part(text="Calculate.")])
            request = agent_service_pb2.RunTaskRequest(task=task)
            events = [event async for event in stub.RunTask(request, timeout=10)]
        assert events[-1].result.output[0].text == "done"
        yield address


async def archon(*arguments: str) -> str:
    result = await asyncio.to_thread(Terminal(Path(os.devnull)).archon, *arguments)
    assert result.code == 0, result.err
    return result.out


async def test_calls_and_failures_of_each_tool_are_listed(registry: str) -> None:
    listed = json.loads(await archon("tools", "--json", "--registry", registry))
    by_tool = {(row["role"], row["name"]): row for row in listed}
    added, failed = by_tool["clerk", "add"], by_tool["clerk", "fail"]
    assert (added["calls"], added["failures"], added["version"], added["state"]) == (2, 0, "2.1.0", "ok")
    assert (failed["calls"], failed["failures"]) == (1, 1)
    assert added["mean_latency_ms"] > 0


async def test_a_tool_of_an_agent_without_health_has_no_counts(registry: str) -> None:
    lines = (await archon("tools", "foreign", "--registry", registry)).splitlines()
    assert " ".join(lines[0].split()) == "role instance tool version state calls failed timed out cached mean p95"
    assert len(lines) == 2
    assert lines[1].split()[2:] == ["add", *["-"] * 8]


async def test_a_role_without_instances_has_no_tools(registry: str) -> None:
    assert await archon("tools", "absent", "--registry", registry) == "No registered instance of absent has tools.\n"


async def test_no_shared_tools_is_said(registry: str) -> None:
    assert await archon("tools", "--mesh", "--registry", registry) == "No registered instance shares tools.\n"
    nothing = await archon("tools", "clerk", "--mesh", "--registry", registry)
    assert nothing == "No registered instance of clerk shares tools.\n"
    assert json.loads(await archon("tools", "--mesh", "--json", "--registry", registry)) == []


async def test_shared_tools_are_listed_with_their_terms(registry: str) -> None:
    async with lent(registry) as lender, lent(registry), lent(registry, "other", name="triple", max_calls_per_minute=0):
        async with ToolClient(registry) as client, client.lease("double") as leased:
            for number in (1, -1, 3):
                await leased.execute({"n": number})
        shown = await archon("tools", "--mesh", "--registry", registry)
        lines = [" ".join(line.split()) for line in shown.splitlines()]
        assert lines[0] == "tool role instances success latency terms"
        assert sorted(lines[1:]) == ["double lender 2 - - 60/min", "triple other 1 - - no limit"]
        assert max(map(len, shown.splitlines())) <= 80
        rows = json.loads(await archon("tools", "lender", "--mesh", "--json", "--registry", registry))
        (row,) = rows
        assert (row["name"], row["role"], row["calls"]) == ("double", "lender", 0)
        assert lender.agent.instance_id in row["instances"]


async def test_shared_tools_of_an_unreachable_registry_are_an_error() -> None:
    result = await asyncio.to_thread(Terminal(Path(os.devnull)).archon, "tools", "--mesh", "--registry", "127.0.0.1:1")
    assert result.code != 0 and "registry" in result.err and "Traceback" not in result.err


def test_a_row_is_of_all_instances_of_a_role() -> None:
    def found(instance: str, calls: int, rate: float, latency: float) -> FoundTool:
        return FoundTool(Tool("t", share=ToolShare(60, calls, rate, latency)), "r", instance, "a:1")

    (row,) = rows_of([found("r-2", 30, 1.0, 0.1), found("r-1", 10, 0.6, 0.3)])
    assert cells_of(row) == ["t", "r", "2", "90%", "150.0 ms", "60/min"]
    assert row.instances == ("r-1", "r-2")
