"""Agents in the test's process with handlers that the test defines, and helpers that read their runs' events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle
from archon.errors import ArchonError
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually

Event = run_pb2.RunEvent


class Troupe:
    """A callable that starts an agent with a role and a handler. The agent serves until the end of the test."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self._mesh = mesh
        self._stack = stack

    async def __call__(
        self,
        role: str,
        handler: Any,
        *,
        max_tasks: int = 0,
        on_message: Any = None,
        on_bid: Any = None,
        kind: type[AgentServer] = AgentServer,
        **more: Any,
    ) -> AgentServer:
        settings = AgentSettings(registry=self._mesh.registry.address, max_tasks=max_tasks)
        agent = kind(role, handler=handler, settings=settings, **more)
        if on_message is not None:
            agent.on_message()(on_message)
        if on_bid is not None:
            agent.bid(on_bid)
        await agent.start()
        self._stack.push_async_callback(agent.stop, 0.0)

        async def known() -> bool:
            return bool(agent._sessions)

        await eventually(known)
        return agent


@pytest.fixture
async def troupe(mesh: Mesh) -> AsyncIterator[Troupe]:
    """Agents in the test's process that join the module's mesh for one test."""
    async with AsyncExitStack() as stack:
        yield Troupe(mesh, stack)


def failing_to(errors: list[ArchonError], **target: Any) -> Callable[[TaskContext], Any]:
    """Returns a handler that delegates once and appends the error to `errors`, if there is one."""

    async def handler(task: TaskContext) -> str:
        try:
            answer = await task.delegate(task.text, **target)
        except ArchonError as error:
            errors.append(error)
            return f"no answer: {error.reason}"
        return answer.text

    return handler


async def durable(handle: RunHandle) -> list[Event]:
    """Waits until the run has ended and returns its durable events."""
    return [event.proto async for event in handle.events() if event.seq]


def of(events: Iterable[Event], kind: str, role: str = "") -> list[Event]:
    """Returns the events of a kind, only those of `role` if it is given."""
    return [
        event
        for event in events
        if event.WhichOneof("event") == kind and (not role or getattr(event, kind).role == role)
    ]
