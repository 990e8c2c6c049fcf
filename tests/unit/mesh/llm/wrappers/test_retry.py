"""RetryModel: what is called again, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from archon.errors import InvalidArgument, ResourceExhausted, Unavailable
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.wrappers import RetryModel
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

HELLO = ModelRequest([ChatMessage("user", "hello")], timeout=30)
LIMITED = Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "7"})


class Sleeper:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


def retrying(server: OpenAIServer, sleeper: Sleeper, retries: int = 3) -> RetryModel:
    client = OpenAIModel("some-model", base_url=server.url)
    return RetryModel(client, retries, sleep=sleeper.sleep, clock=sleeper.clock, uniform=lambda low, high: high)


async def test_a_call_is_repeated_after_what_the_provider_asks(server: OpenAIServer) -> None:
    sleeper = Sleeper()
    model = retrying(server, sleeper)
    server.script(LIMITED, Answer({"error": {"message": "an accident"}}, 500))
    assert (await model.generate(HELLO)).text == "echo: hello"
    assert len(server.received) == 3
    assert sleeper.now == pytest.approx(7 + 0.5 + 1.0)
    await model.close()


async def test_the_last_error_is_raised(server: OpenAIServer) -> None:
    model = retrying(server, Sleeper(), retries=1)
    server.script(LIMITED, LIMITED)
    with pytest.raises(ResourceExhausted):
        await model.generate(HELLO)
    assert len(server.received) == 2
    await model.close()


async def test_a_pause_beyond_the_timeout_is_not_made(server: OpenAIServer) -> None:
    sleeper = Sleeper()
    model = retrying(server, sleeper)
    server.script(LIMITED)
    with pytest.raises(ResourceExhausted):
        await model.generate(ModelRequest(HELLO.messages, timeout=5))
    assert sleeper.now == 0
    await model.close()


async def test_an_invalid_request_is_not_repeated(server: OpenAIServer) -> None:
    model = retrying(server, Sleeper())
    server.script(Answer({"error": {"message": "no"}}, 400))
    with pytest.raises(InvalidArgument):
        await model.generate(HELLO)
    assert len(server.received) == 1
    await model.close()


async def test_a_reply_that_has_begun_is_not_repeated(server: OpenAIServer) -> None:
    model = retrying(server, Sleeper())
    server.script(Answer(events=[chunk({"content": "half"})], end="cut"))
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    assert len(server.received) == 1
    await model.close()


async def test_a_long_pause_is_not_taken_for_silence() -> None:
    sleeper = Sleeper()
    inner = ScriptedModel([Unavailable("down", retry_delay=25), "ok"])
    model = RetryModel(inner, sleep=sleeper.sleep, clock=sleeper.clock, uniform=lambda low, high: low)
    times = [sleeper.now async for _ in model.stream(ModelRequest(HELLO.messages, timeout=30, idle_timeout=30))]
    assert times[:4] == [10, 20, 25, 25]


async def test_a_cancelled_pause_ends_the_call() -> None:
    waiting = asyncio.Event()

    async def forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    inner = ScriptedModel([Unavailable("down"), "never"])
    call = asyncio.create_task(RetryModel(inner, sleep=forever).generate(HELLO))
    await waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert inner.remaining == 1


def test_negative_retries_are_rejected() -> None:
    with pytest.raises(InvalidArgument):
        RetryModel(ScriptedModel(), -1)
