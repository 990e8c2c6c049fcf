"""A tool that a member in Go shares, over the generated stubs alone, used by agents in Python."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.client import answer_text
from archon.errors import InvalidArgument, RequestIdReused, Unavailable
from archon.tools import SharedToolStatus, ToolClient, find_tools
from archon.types import TaskRef, TaskState
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Role, agent_server
from archon_mesh.tools.remote import RemoteTool
from tests.fixtures.mesh import Mesh, own_mesh
from tests.interop.go_agent import GoAgent, StartGo

pytestmark = pytest.mark.slow

__all__ = ["own_mesh"]


@pytest.fixture
async def lender(own_mesh: Mesh, start_go: StartGo) -> GoAgent:
    agent = await start_go(own_mesh.registry.address)
    await own_mesh.seen(agent.address)
    return agent


@pytest.fixture
async def client(own_mesh: Mesh) -> AsyncIterator[ToolClient]:
    async with ToolClient(own_mesh.registry.address, instance_id="tester") as client:
        yield client


@pytest.mark.liveness
async def test_an_agent_in_python_uses_a_tool_in_go(own_mesh: Mesh, lender: GoAgent) -> None:
    def reply(request: Any) -> Any:
        results = [message.content for message in request.messages if message.role == "tool"]
        return f"{results[-1]} words" if results else ToolCall("c", "count_words", '{"text": "three little words"}')

    registry = own_mesh.registry.address
    remote = RemoteTool("count_words", "designer", registry=registry)
    agent = Agent("writer", model=ScriptedModel(reply), tools=[remote])
    async with agent, agent_server(Role("writer", "You count."), agent, AgentSettings(registry=registry)):
        run = (await own_mesh.client.submit("Count.", roles=["writer"], wait=20)).run
    assert run.state == TaskState.COMPLETED, run.failure
    assert answer_text(run) == "3 words"
    task_id = run.tasks[0].task_id
    assert await lender.until_logged("executing") == [f"for {task_id}"]
    assert await lender.until_logged("returned") == [f"by {task_id}"]


@pytest.mark.liveness
async def test_the_example_calls_the_tool_in_go(own_mesh: Mesh, lender: GoAgent) -> None:
    path = Path(__file__).parents[2] / "examples" / "shared_tools.py"
    spec = importlib.util.spec_from_file_location("shared_tools_example", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert await example.in_go(own_mesh.registry.address) == ("designer", 3)
    assert len(await lender.until_logged("returned")) == 1


@pytest.mark.liveness
async def test_a_tool_in_go_keeps_the_contract(own_mesh: Mesh, lender: GoAgent, client: ToolClient) -> None:
    (found,) = await find_tools(own_mesh.registry.address, name="count_words")
    assert (found.role, found.address, found.share.max_calls_per_minute) == ("designer", lender.address, 60)
    progress: list[str] = []
    async with client.lease("count_words", task=TaskRef("t", "r")) as tool:
        answer = await tool.execute({"text": "a b"}, idempotency_key="k", on_progress=progress.append)
        assert (answer.content, progress) == (2, ["counting"])
        assert (await tool.execute({"text": "a b"}, idempotency_key="k")).content == 2
        with pytest.raises(RequestIdReused):
            await tool.execute({"text": "a"}, idempotency_key="k")
        with pytest.raises(InvalidArgument):
            await tool.execute({"words": "a"})
        late = await tool.execute({"text": "a", "pause": "5s"}, timeout=0.2)
        assert late.status is SharedToolStatus.TIMEOUT
    assert len(lender.logged("executing")) == 2
    async with client.lease("count_words") as tool:
        call = asyncio.create_task(tool.execute({"text": "a", "pause": "20s"}))
        await lender.until_logged("executing", 3)
        call.cancel()
        await lender.until_logged("cancelled")


@pytest.mark.liveness
async def test_a_killed_owner_in_go_fails_the_call_typed(lender: GoAgent, client: ToolClient) -> None:
    async with client.lease("count_words") as tool:
        call = asyncio.create_task(tool.execute({"text": "a", "pause": "20s"}))
        await lender.until_logged("executing")
        lender.send(signal.SIGKILL)
        with pytest.raises(Unavailable):
            await call
