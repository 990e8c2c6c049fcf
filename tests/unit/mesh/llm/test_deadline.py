"""Model clients that ignore the timeout of their request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from archon.errors import DeadlineExceeded
from archon_mesh.agent import Agent, ContextCompactionMiddleware
from archon_mesh.agent.events.types import AgentEvent
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest
from tests.fixtures.scripted_model import ScriptedModel, says


class DeafModel:
    """Sends a chunk, if it streams, and then nothing, whatever the timeout. `cancelled` is set if it is cut off."""

    model = "deaf"

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    async def generate(self, request: ModelRequest) -> ModelReply:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return says("late")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        yield ModelChunk(text_delta="half ")
        await self.generate(request)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("streams", [False, True])
async def test_model_that_ignores_its_timeout_is_cut_off(streams: bool) -> None:
    model, events = DeafModel(), list[AgentEvent]()
    agent = Agent("a", model=model, timeout=0.05)
    async with asyncio.timeout(60):
        with pytest.raises(DeadlineExceeded, match=r"no reply of the model deaf within 0\.05 s"):
            await agent.run_async("?", None, [events.append] if streams else None)
    assert model.cancelled.is_set()
    assert [message for message in agent.history if message.role == "assistant"] == []


async def test_time_between_chunks_belongs_to_the_consumer() -> None:
    class Prompt(DeafModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(text_delta="whole")
            yield ModelChunk(reply=says("whole"))

    async def slow(event: AgentEvent) -> None:
        if event.type == "TEXT_MESSAGE_CONTENT":
            await asyncio.sleep(0.3)  # longer than the timeout of the call

    agent = Agent("a", model=Prompt(), timeout=0.2)
    assert await agent.run_async("?", None, [slow]) == "whole"
    assert agent.history[-1] == ChatMessage("assistant", "whole")


async def test_model_that_writes_summaries_is_cut_off_too() -> None:
    model = DeafModel()
    compaction = ContextCompactionMiddleware(
        10, compaction_strategy="summarisation", window_size=1, model=model, timeout=0.05
    )
    agent = Agent("a", model=ScriptedModel(says("one"), says("two")), middlewares=[compaction])
    async with asyncio.timeout(60):
        await agent.run_async("first")
        with pytest.raises(DeadlineExceeded, match="no reply of the model deaf"):
            await agent.run_async("second " * 20)
    assert model.cancelled.is_set()
