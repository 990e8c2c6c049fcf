"""A model call is made again after an error that may pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from archon import context
from archon.errors import ArchonError, InvalidArgument, ResourceExhausted, Unavailable
from archon_mesh.agent import Agent
from archon_mesh.agent.events.types import AgentEvent
from archon_mesh.agent.loop import model_call
from archon_mesh.llm import ModelChunk, ModelRequest, ScriptedModel
from archon_mesh.llm.retry import MAX_PAUSE, is_transient, pause_before
from tests.fixtures.scripted_model import says

DOWN = Unavailable("the model endpoint answered 503")
LIMITED = ResourceExhausted("the model endpoint answered 429", metadata={"http_status": "429"}, retry_delay=2.0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replaces the pauses by none; has the numbers of the retries."""
    retries: list[int] = []

    def pause(retry: int, error: ArchonError) -> float:
        retries.append(retry)
        return 0.0

    monkeypatch.setattr(model_call, "pause_before", pause)
    return retries


async def test_a_call_is_made_again_until_it_succeeds(pauses: list[int]) -> None:
    model = ScriptedModel([DOWN, LIMITED, DOWN, says("at last")])
    assert await Agent("a", model=model).run_async("?") == "at last"
    assert (len(model.requests), pauses) == (4, [1, 2, 3])


async def test_after_four_tries_the_last_error_is_raised(pauses: list[int]) -> None:
    model = ScriptedModel([*[DOWN] * 3, Unavailable("the last")])
    with pytest.raises(Unavailable, match="the last"):
        await Agent("a", model=model).run_async("?")
    assert len(model.requests) == 4


async def test_the_number_of_retries_is_a_setting(pauses: list[int]) -> None:
    model = ScriptedModel([DOWN])
    with pytest.raises(Unavailable):
        await Agent("a", model=model, retries=0).run_async("?")
    with pytest.raises(InvalidArgument, match="retries"):
        Agent("a", retries=-1)


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("no such parameter"),
        ResourceExhausted("the budget is used up"),
        ResourceExhausted("no money", metadata={"http_status": "429", "code": "insufficient_quota"}),
    ],
)
async def test_an_error_that_does_not_pass_is_raised_at_once(error: ArchonError, pauses: list[int]) -> None:
    model = ScriptedModel([error])
    with pytest.raises(type(error)):
        await Agent("a", model=model, fallback_model=ScriptedModel([says("never")])).run_async("?")
    assert (len(model.requests), pauses) == (1, [])


async def test_the_fallback_model_answers_if_the_model_keeps_failing(pauses: list[int]) -> None:
    model, fallback = ScriptedModel([DOWN] * 4), ScriptedModel([DOWN, says("from the other")])
    assert await Agent("a", model=model, fallback_model=fallback).run_async("?") == "from the other"
    assert (len(model.requests), len(fallback.requests)) == (4, 2)


async def test_no_retry_begins_after_a_minute_or_after_the_tasks_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause, deadline in ((61.0, 1_000.0), (5.0, 4.0)):
        monkeypatch.setattr(model_call, "pause_before", lambda retry, error, pause=pause: pause)
        model = ScriptedModel([DOWN])
        with context.deadline(deadline), pytest.raises(Unavailable):
            async with asyncio.timeout(60):
                await Agent("a", model=model).run_async("?")


async def test_a_stream_that_breaks_off_is_begun_again(pauses: list[int]) -> None:
    class Broken(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            if not self.requests:
                self.requests.append(request)
                yield ModelChunk(text_delta="half an ")
                raise DOWN
            async for chunk in super().stream(request):
                yield chunk

    events: list[AgentEvent] = []
    model = Broken([says("a whole answer")])
    assert await Agent("a", model=model).run_async("?", None, [events.append]) == "a whole answer"
    deltas = [event.to_dict() for event in events if event.type == "TEXT_MESSAGE_CONTENT"]
    assert [delta["delta"] for delta in deltas] == ["half an ", "a whole answer"]
    assert len({delta["messageId"] for delta in deltas}) == 2, "what broke off is a message of its own"


def test_the_pause_is_what_the_provider_asks_for_and_doubles_with_full_jitter() -> None:
    assert min(pause_before(1, LIMITED) for _ in range(50)) >= 2.0
    for retry, longest in ((1, 0.5), (2, 1.0), (20, MAX_PAUSE)):
        drawn = [pause_before(retry, DOWN) for _ in range(200)]
        assert 0.0 <= min(drawn) < longest / 4
        assert 3 * longest / 4 < max(drawn) <= longest


def test_what_may_pass() -> None:
    assert is_transient(DOWN)
    assert is_transient(LIMITED)
    assert not is_transient(ResourceExhausted("the budget"))
    assert not is_transient(TimeoutError())
