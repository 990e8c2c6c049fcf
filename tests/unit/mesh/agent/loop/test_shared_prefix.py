"""Consecutive requests of a run share their beginning, which providers keep for the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archon_mesh.agent import Agent, ContextCompactionMiddleware, Middleware
from archon_mesh.agent.hooks.shared_memory import SharedMemoryMiddleware
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.llm.anthropic_wire import request_to_wire
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
