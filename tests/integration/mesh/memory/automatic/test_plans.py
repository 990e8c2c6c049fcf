"""Steps of a plan recall and store memories of the run's user, or of its session."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.memory.automatic import USER_KEY, MemoryMiddleware
from archon_mesh.memory.long_term import LongTermMemory
from archon_mesh.node import Role, agent_server
from tests.fixtures.mesh import Mesh, mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, troupe

__all__ = ["mesh", "troupe"]


@pytest.fixture
async def clerk(mesh: Mesh, memory: LongTermMemory) -> AsyncIterator[tuple[str, list[ModelRequest]]]:
    """A role with a long-term memory, and the requests that its model gets."""
    name, requests = f"clerk-{uuid.uuid4().hex[:6]}", list[ModelRequest]()

    def answer(request: ModelRequest) -> str:
        requests.append(request)
        return "Flight B has a window seat."

    agent = Agent(name, model=ScriptedModel(answer)).use(MemoryMiddleware(memory))
    server = agent_server(
        Role(name, "You book.", max_tasks=2), agent, AgentSettings(registry=mesh.registry.address), memory=""
    )
    async with AsyncExitStack() as stack:
        await server.start()
        stack.push_async_callback(server.stop, 0.0)

        async def known() -> bool:
            return bool(server._sessions)

        await eventually(known)
        yield name, requests


@pytest.mark.parametrize(
    ("submitted", "user"),
    [
        ({"session_id": "s-of-plan"}, "session/s-of-plan"),
        ({"metadata": {USER_KEY: "ana"}}, "ana"),
        ({"session_id": "s-of-ana", "metadata": {USER_KEY: "ana"}}, "ana"),
        ({}, ""),
    ],
    ids=["session", "user", "both", "neither"],
)
async def test_a_step_recalls_and_stores_for_the_owner_of_its_run(
    mesh: Mesh,
    troupe: Troupe,
    memory: LongTermMemory,
    clerk: tuple[str, list[ModelRequest]],
    submitted: dict[str, Any],
    user: str,
) -> None:
    role, requests = clerk
    planner = f"planner-{uuid.uuid4().hex[:6]}"
    steps = json.dumps({"goal": "g", "subtasks": [{"id": "book", "description": "Book a flight to Oslo"}]})
    plan: Callable[[Any], str] = lambda task: "done" if task.plan_request.synthesise else steps  # noqa: E731
    await troupe(planner, plan)
    for owner in filter(None, (user, "another-user")):
        await memory.store(f"{owner} only flies to Oslo with window seats.", {"user": owner, "type": "preference"})
    handle = await mesh.client.submit("a trip", strategy="plan", planner=planner, roles=[role], wait=20, **submitted)
    assert handle.run.state == TaskState.COMPLETED
    recalled = [message.content for message in requests[0].messages if "window seats" in message.content]
    assert [text.partition("] ")[2] for text in recalled] == (
        [f"{user} only flies to Oslo with window seats."] if user else []
    )
    turns = await memory.recent(10, {"type": "turn"})
    assert [turn.metadata["user"] for turn in turns] == ([user] if user else [])
    assert [turn.metadata.get("session", "") for turn in turns] == ([submitted.get("session_id", "")] if user else [])
