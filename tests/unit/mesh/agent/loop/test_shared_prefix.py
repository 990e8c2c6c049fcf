"""Consecutive requests of a run share their beginning, which providers keep for the next one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from archon_mesh.agent import Agent, ContextCompactionMiddleware, Middleware
from archon_mesh.agent.hooks.shared_memory import SharedMemoryMiddleware
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.llm.anthropic_wire import request_to_wire
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.structured import FinalAnswer
from archon_mesh.tools import tool


@tool
def look(place: str) -> str:
    """Looks."""
    return f"nothing at {place}"


def shared() -> Middleware:
    graph = SharedMemoryGraph()
    for name in ("upstream", "a"):
        graph.add_agent(name)
    graph.add_edge("upstream", "a")
    graph.publish("upstream", "The answer of upstream.")
    return SharedMemoryMiddleware(graph, "a")


MIDDLEWARES: dict[str, Callable[[], Middleware]] = {
    "shared memory": shared,
    "compaction that is not due": ContextCompactionMiddleware,
}


@pytest.mark.parametrize("create", [None, *MIDDLEWARES.values()], ids=["none", *MIDDLEWARES])
async def test_each_request_of_a_run_begins_with_the_one_before(create: Callable[[], Middleware] | None) -> None:
    calls = [ToolCall(str(number), "look", f'{{"place": "{number}"}}') for number in range(4)]
    model = ScriptedModel([*calls, "nothing anywhere"])
    middlewares = [create()] if create is not None else []
    agent = Agent("a", system_prompt="Be brief.", model=model, tools=[look], middlewares=middlewares)
    await agent.run_async("Where is it?")
    assert len(model.requests) == 5
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert after.tools == before.tools
        old, new = (request_to_wire(request, thinking=False) for request in (before, after))
        assert (old["tools"], old["system"]) == (new["tools"], new["system"])


@pytest.mark.parametrize("family", ["openai", "vllm", "anthropic"])
async def test_requests_for_a_typed_answer_share_their_beginning(family: str) -> None:
    calls = [ToolCall(str(number), "look", f'{{"place": "{number}"}}') for number in range(3)]
    model = ScriptedModel([*calls, "nothing anywhere", "[1]"])
    agent = Agent("a", system_prompt="Be brief.", model=model, tools=[look], output=list[int])
    assert await agent.run_async("Where is it?") == [1]
    assert len(model.requests) == 5
    client = OpenAIModel("m", base_url="http://127.0.0.1:1/v1", server="openai")
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert (after.tools, after.output_schema) == (before.tools, before.output_schema)
        old, new = (wire(request, family, client) for request in (before, after))
        heads = [{key: value for key, value in each.items() if key != "messages"} for each in (old, new)]
        assert json.dumps(heads[0]) == json.dumps(heads[1])
        count = len(old["messages"]) - (family == "anthropic")  # the mark of the cache moves on
        assert json.dumps(new["messages"][:count]) == json.dumps(old["messages"][:count])
    await client.close()


def wire(request: ModelRequest, family: str, client: OpenAIModel) -> dict[str, Any]:
    if family == "openai":
        return client._arguments(request)
    request = FinalAnswer(request).request
    return client._arguments(request) if family == "vllm" else request_to_wire(request, thinking=False)
