"""A tool of one agent, used by another: lent, found, and executed where it lives."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archon import AgentServer, TaskContext
from archon.registry import Tool
from archon.tools import SharedTool, SharedToolCall, ToolClient, find_tools
from archon_mesh import Agent
from archon_mesh.llm import ScriptedModel, ToolCall
from archon_mesh.node import Role, agent_server
from archon_mesh.testing import InProcessMesh
from archon_mesh.tools import tell_progress, tool
from archon_mesh.tools.remote import RemoteTool


@tool(shared=True, idempotent=True, timeout=10)
async def length(river: str) -> int:
    """Returns the length of a river in km."""
    tell_progress(f"measuring the {river}")
    return {"Danube": 2850, "Rhine": 1233}[river]


async def by_a_model(home: Path) -> str:
    """The model of the writer calls a tool of the geographer."""
    model = ScriptedModel([ToolCall("1", "length", '{"river": "Rhine"}'), "The Rhine is 1,233 km long."])
    async with InProcessMesh(home) as mesh:
        geographer = Agent("geographer", model="offline", tools=[length])
        writer = Agent(
            "writer", model=model, tools=[RemoteTool("length", "geographer", registry=mesh.registry.address)]
        )
        lender = agent_server(Role("geographer", "You know rivers."), geographer, mesh.agent_settings())
        borrower = agent_server(Role("writer", "You write."), writer, mesh.agent_settings())
        async with geographer, writer, lender, borrower:
            await (await mesh.client.submit("How long is the Rhine?", roles=["writer"])).result(30)
    return model.requests[1].messages[-1].content


async def halve(arguments: Mapping[str, Any], call: SharedToolCall) -> float:
    call.report("halving")
    return arguments["number"] / 2


SCHEMA = '{"type": "object", "properties": {"number": {"type": "number"}}, "required": ["number"]}'
clerk = AgentServer("clerk", shared_tools=[SharedTool(Tool("halve", "Halves a number.", SCHEMA), halve)])


@clerk.task
async def answer(task: TaskContext) -> str:
    return "done"


async def by_a_program(home: Path) -> tuple[list[str], Any, str]:
    """A program finds the tool, leases it and calls it; then its owner takes it back."""
    async with InProcessMesh(home) as mesh:
        clerk.settings = mesh.agent_settings()
        async with clerk, ToolClient(mesh.registry.address) as client:
            found = await find_tools(mesh.registry.address, words="number")
            async with client.lease("halve") as halving:
                result = await halving.execute({"number": 5}, timeout=10, idempotency_key="order-7")
                clerk.shared_tools.revoke("halve")
                try:
                    await halving.execute({"number": 7})
                except LookupError as error:
                    return [each.name for each in found], result.content, type(error).__name__
    raise AssertionError("the tool was not taken back")


async def in_go(registry: str) -> tuple[str, Any]:
    """Calls the tool that an agent in Go lends. The caller sees no difference to one in Python."""
    (found,) = await find_tools(registry, name="count_words")
    async with ToolClient(registry) as client, client.lease("count_words", role=found.role) as counting:
        result = await counting.execute({"text": "three little words"}, timeout=10)
    return found.role, result.content


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(by_a_model(Path(folder) / "a")))  # noqa: T201
        print(asyncio.run(by_a_program(Path(folder) / "b")))  # noqa: T201
