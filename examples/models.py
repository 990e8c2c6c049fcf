"""Models: a chain of providers, costs, and tests without a provider. docs/models.md shows these examples."""

from __future__ import annotations

from pathlib import Path

from archon_mesh.agent import Agent
from archon_mesh.llm import ChatMessage, ModelReply, ModelRequest, ScriptedModel, ToolCall, Usage, load_file
from archon_mesh.llm.prices import Price
from archon_mesh.llm.wrappers import (
    BudgetModel,
    CachedModel,
    FallbackModel,
    RateLimitedModel,
    RecordingModel,
    ReplayModel,
    RetryModel,
)
from archon_mesh.tools import tool


@tool
def multiply(a: int, b: int) -> int:
    """Multiplies two numbers."""
    return a * b


async def scripted() -> str:
    """An agent is tested with a model whose replies are known beforehand."""
    model = ScriptedModel([ToolCall("1", "multiply", '{"a": 15, "b": 3}'), "It is 45."])
    agent = Agent("clerk", model=model, tools=[multiply])
    answer = await agent.run_async("What is 15 * 3?")
    assert model.requests[1].messages[-1].content == "45"
    return answer


async def picture(model: ScriptedModel, path: Path) -> str:
    """A message carries files, which the model gets after the text."""
    query = ChatMessage("user", "What is this?", files=[load_file(path)])
    return await Agent("viewer", model=model).run_async([query])


async def wrapped(overloaded: ScriptedModel, other: ScriptedModel) -> str:
    """Wrappers compose: the first model is asked again, then the other one, and never more than 60 times a minute."""
    model = FallbackModel([RetryModel(overloaded, retries=1), other])
    limited = RateLimitedModel(CachedModel(model), requests_per_minute=60, tokens_per_minute=100_000)
    return await Agent("clerk", model=limited, retries=0).run_async("Are you there?")


async def cassettes(model: ScriptedModel, path: Path) -> tuple[str, str]:
    """The calls of a model are recorded once, and replayed in tests without a network or a key."""
    recorded = await Agent("clerk", model=RecordingModel(model, path), tools=[multiply]).run_async("15 * 3?")
    replayed = await Agent("clerk", model=ReplayModel(path), tools=[multiply]).run_async("15 * 3?")
    return recorded, replayed


async def budget() -> int:
    """A budget in US dollars ends before it is exceeded."""

    class Priced(ScriptedModel):
        price = Price(input=2.0, output=10.0, cached_input=0.2, cache_write=2.0)

    paid = ModelReply("Yes.", (), Usage(500, 20, cost_micro_usd=1_200), "priced", "stop")
    model = BudgetModel(Priced([paid]), cost=0.02)
    reply = await model.generate(ModelRequest([ChatMessage("user", "Are you there?")], max_tokens=100))
    return reply.usage.cost_micro_usd
