"""Real agents on real ports, driven frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest

from archon.agent import AgentServer, AgentSettings
from archon.agent.attempt import Handler
from archon.testing import FakeOrchestrator


class Serve(Protocol):
    """Starts an agent that is stopped after the test."""

    async def __call__(self, handler: Handler, *, max_tasks: int = 8) -> AgentServer: ...


class Dial(Protocol):
    """Opens a session that ends with the test."""

    async def __call__(
        self, agent: AgentServer, orchestrator_id: str = "orchestrator-1", *, max_message_bytes: int = 0
    ) -> FakeOrchestrator: ...


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    agents = []

    async def start(handler: Handler, *, max_tasks: int = 8) -> AgentServer:
        agent = AgentServer("worker", handler=handler, max_tasks=max_tasks, settings=AgentSettings())
        agents.append(agent)
        await agent.start()
        return agent

    yield start
    await asyncio.gather(*(agent.stop(0.0) for agent in agents))


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    async with AsyncExitStack() as stack:

        async def connect(
            agent: AgentServer, orchestrator_id: str = "orchestrator-1", *, max_message_bytes: int = 0
        ) -> FakeOrchestrator:
            peer = FakeOrchestrator(agent.address, orchestrator_id=orchestrator_id)
            await stack.enter_async_context(peer)
            await peer.open(agent.instance_id, max_message_bytes=max_message_bytes)
            return peer

        yield connect


class Gate:
    """A handler that tells when it has begun and ends when it is let."""

    def __init__(self, answer: str = "done") -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.calls = 0
        self._answer = answer

    async def handle(self, task: Any) -> str:
        self.calls += 1
        self.begun.set()
        await self.open.wait()
        return self._answer

    async def reached(self) -> None:
        """Waits for the handler to have begun."""
        async with asyncio.timeout(5.0):
            await self.begun.wait()


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Polls until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)
