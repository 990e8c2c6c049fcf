"""RateLimitedModel and BudgetModel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from archon.errors import BudgetExhausted, InvalidArgument, ResourceExhausted, Unavailable
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ScriptedModel, Usage
from archon_mesh.llm.prices import Price
from archon_mesh.llm.wrappers import BudgetModel, RateLimitedModel

HELLO = ModelRequest([ChatMessage("user", "x" * 400)], max_tokens=100, timeout=300)  # 200 tokens
USED = ModelReply("ok", (), Usage(100, 100, cost_micro_usd=200), "m", "stop")


class Clock:
    """A clock that only sleeping moves; `waiting` is set while a call sleeps and `blocked`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting = asyncio.Event()
        self.blocked: Callable[[], bool] = lambda: False

    async def sleep(self, seconds: float) -> None:
        if self.blocked():
            self.waiting.set()
            await asyncio.Event().wait()
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def limited(clock: Clock, model: ScriptedModel, **limits: Any) -> RateLimitedModel:
    return RateLimitedModel(model, clock=clock, sleep=clock.sleep, **limits)


async def test_requests_beyond_the_limit_wait_for_their_turn() -> None:
    clock = Clock()
    model = limited(clock, ScriptedModel([USED] * 8), requests_per_minute=6)
    times = []
    for _ in range(8):
        await model.generate(HELLO)
        times.append(clock.now)
    assert times == [0, 0, 0, 0, 0, 0, 10, 20]


async def test_tokens_count_as_estimated_and_then_as_reported() -> None:
    clock = Clock()
    cheap = ModelReply("ok", (), Usage(10, 10), "m", "stop")
    model = limited(clock, ScriptedModel([USED, cheap, USED, USED]), tokens_per_minute=600)
    for _ in range(3):
        await model.generate(HELLO)
    assert clock.now == 0  # 200 + 20 + 200 of 600
    await model.generate(HELLO)
    assert clock.now == pytest.approx(2)  # 20 tokens are missing, at 10 per second


async def test_a_wait_that_is_too_long_is_refused_with_a_delay() -> None:
    clock = Clock()
    inner = ScriptedModel([USED] * 3)
    model = limited(clock, inner, requests_per_minute=1, max_wait=30)
    await model.generate(HELLO)
    with pytest.raises(ResourceExhausted) as caught:
        await model.generate(HELLO)
    assert caught.value.retry_delay == 60
    patient = limited(clock, inner, requests_per_minute=1)
    await patient.generate(HELLO)
    with pytest.raises(ResourceExhausted):
        await patient.generate(ModelRequest(HELLO.messages, timeout=59))
    assert clock.now == 0 and inner.remaining == 1


async def test_a_call_cancelled_while_it_waits_gives_its_share_back() -> None:
    clock = Clock()
    inner = ScriptedModel([USED] * 2)
    model = limited(clock, inner, requests_per_minute=1, tokens_per_minute=10_000)
    await model.generate(HELLO)
    clock.blocked = lambda: True
    call = asyncio.create_task(model.generate(HELLO))
    await clock.waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    clock.blocked = lambda: False
    await model.generate(HELLO)
    assert clock.now == pytest.approx(60)


async def test_a_waiting_call_is_not_silent() -> None:
    clock = Clock()
    model = limited(clock, ScriptedModel([USED] * 2), requests_per_minute=1)
    await model.generate(HELLO)
    chunks = [chunk async for chunk in model.stream(ModelRequest(HELLO.messages, timeout=300, idle_timeout=30))]
    empty = [chunk for chunk in chunks if chunk.reply is None and not chunk.text_delta]
    assert len(empty) == 6


@pytest.mark.parametrize("wrong", [{}, {"tokens_per_minute": 0}, {"requests_per_minute": 1, "max_wait": -1}])
def test_limits_out_of_range_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        RateLimitedModel(ScriptedModel(), **wrong)


class Priced(ScriptedModel):
    """A scripted model that costs a dollar per million tokens."""

    price = Price(1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"tokens": 500}, "100 tokens left of 500, 200 needed"),
        ({"cost": 0.000_5}, r"\$0.000100 left of \$0.000500, \$0.000200 needed"),
    ],
)
async def test_a_call_beyond_the_budget_is_not_made(limits: dict[str, Any], message: str) -> None:
    inner = Priced([USED, Unavailable("free of charge"), USED, USED])
    model = BudgetModel(inner, **limits)
    await model.generate(HELLO)
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    await model.generate(HELLO)
    with pytest.raises(BudgetExhausted, match=message):
        await model.generate(HELLO)
    assert inner.remaining == 1


async def test_a_call_that_failed_while_the_model_replied_counts() -> None:
    class Broken(Priced):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(thinking_delta="x" * 400)
            raise Unavailable("cut off")

    model = BudgetModel(Broken(), cost=0.000_3)
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    with pytest.raises(BudgetExhausted, match=r"\$0.000100 left"):
        await model.generate(HELLO)


async def test_calls_at_the_same_time_share_the_budget() -> None:
    model = BudgetModel(ScriptedModel([USED] * 3), tokens=500)
    outcomes = await asyncio.gather(*(model.generate(HELLO) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ModelReply, ModelReply, BudgetExhausted]


@pytest.mark.parametrize("wrong", [{}, {"tokens": 0}, {"cost": -1.0}])
def test_a_budget_without_a_limit_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        BudgetModel(ScriptedModel(), **wrong)
