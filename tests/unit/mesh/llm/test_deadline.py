"""Model clients that ignore the timeout of their request."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from archon.errors import DeadlineExceeded, ResourceExhausted, Unavailable
from archon_mesh.agent import Agent, ContextCompactionMiddleware
from archon_mesh.agent.events.types import AgentEvent
from archon_mesh.core.compaction import is_summary
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ScriptedModel, deadline
from archon_mesh.llm.base import CALL_TIMEOUT, IDLE_TIMEOUT
from tests.fixtures.scripted_model import says
from tests.fixtures.virtual_time import in_virtual_time, pass_time


class DeafModel:
    """Sends a chunk, if it streams, and then nothing, whatever the timeout. `cancelled` is set if it is cut off."""

    model = "deaf"

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    async def generate(self, request: ModelRequest) -> ModelReply:
        try:
            await asyncio.Event().wait()
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
@in_virtual_time
async def test_model_that_ignores_its_timeout_is_cut_off(streams: bool) -> None:
    model, events = DeafModel(), list[AgentEvent]()
    agent = Agent("a", model=model, timeout=0.05)
    async with asyncio.timeout(60):
        with pytest.raises(DeadlineExceeded, match=r"no reply of the model deaf within 0\.05 s"):
            await agent.run_async("?", None, [events.append] if streams else None)
    assert model.cancelled.is_set()
    assert [message for message in agent.history if message.role == "assistant"] == []


@in_virtual_time
async def test_time_between_chunks_belongs_to_the_consumer() -> None:
    class Prompt(DeafModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(text_delta="whole")
            yield ModelChunk(reply=says("whole"))

    async def slow(event: AgentEvent) -> None:
        if event.type == "TEXT_MESSAGE_CONTENT":
            await pass_time(30.0)  # longer than the timeout of the call

    agent = Agent("a", model=Prompt(), timeout=20)
    assert await agent.run_async("?", None, [slow]) == "whole"
    assert agent.history[-1] == ChatMessage("assistant", "whole")


@in_virtual_time
async def test_model_that_writes_summaries_is_cut_off_too() -> None:
    model = DeafModel()
    compaction = ContextCompactionMiddleware(
        10, compaction_strategy="summarisation", window_size=1, model=model, timeout=0.05
    )
    agent = Agent("a", model=ScriptedModel([says("one"), says("two")]), middlewares=[compaction])
    async with asyncio.timeout(60):
        await agent.run_async("first")
        assert await agent.run_async("second " * 20) == "two"
    assert model.cancelled.is_set()
    assert is_summary(agent.history[0]), "an extract takes the summary's place"


REQUEST = ModelRequest([ChatMessage("user", "?")])


class DrippingModel(DeafModel):
    """Sends a chunk every `pause` seconds, for ever."""

    def __init__(self, pause: float) -> None:
        super().__init__()
        self.pause, self.sent = pause, 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        try:
            while True:
                yield ModelChunk(text_delta="drip ")
                self.sent += 1
                await asyncio.sleep(self.pause)
        finally:
            self.cancelled.set()


class StubbornModel(DeafModel):
    """Swallows its cancellation, and sends nothing, until it is released."""

    model = "stubborn"

    def __init__(self) -> None:
        super().__init__()
        self.started, self.release = asyncio.Event(), asyncio.Event()

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.started.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
        return says("at last")


def test_calls_end_after_30_s_of_silence_and_after_5_minutes() -> None:
    assert (IDLE_TIMEOUT, CALL_TIMEOUT) == (30.0, 300.0)
    agent = Agent("a")
    assert (agent.idle_timeout, agent.model_timeout) == (30.0, 300.0)
    assert (REQUEST.idle_timeout, REQUEST.timeout) == (30.0, 300.0)


@pytest.mark.parametrize("streams", [False, True])
@in_virtual_time
async def test_a_model_that_falls_silent_is_cut_off(streams: bool) -> None:
    model, events = DeafModel(), list[AgentEvent]()
    agent = Agent("a", model=model, idle_timeout=0.05)
    async with asyncio.timeout(60):
        with pytest.raises(
            DeadlineExceeded, match=r"the model deaf sent nothing for 0\.05 s \(idle_timeout\)"
        ) as caught:
            await agent.run_async("?", None, [events.append] if streams else None)
    assert caught.value.kind == "model.provider"
    assert model.cancelled.is_set()


class LateModel(DeafModel):
    """Sends a sign of life, a token after `first` seconds, and the end after another `then` seconds."""

    def __init__(self, first: float, then: float) -> None:
        super().__init__()
        self.waits = first, then

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        yield ModelChunk()
        await asyncio.sleep(self.waits[0])
        yield ModelChunk(text_delta="late ")
        await asyncio.sleep(self.waits[1])
        yield ModelChunk(reply=says("late"))


@in_virtual_time
async def test_a_model_may_take_longer_for_its_first_token_than_between_tokens() -> None:
    assert (await deadline.generate(LateModel(119, 29), REQUEST)).text == "late"
    with pytest.raises(DeadlineExceeded, match=r"the model deaf sent nothing for 30 s \(idle_timeout\)"):
        await deadline.generate(LateModel(119, 31), REQUEST)
    with pytest.raises(DeadlineExceeded, match="sent no first token for 120 s"):
        await deadline.generate(LateModel(121, 1), REQUEST)
    with pytest.raises(DeadlineExceeded, match="sent no first token for 7 s"):
        await deadline.generate(LateModel(8, 1), replace(REQUEST, first_token_timeout=7))


@in_virtual_time
async def test_a_model_that_drips_for_ever_is_cut_off() -> None:
    model = DrippingModel(0.01)
    async with asyncio.timeout(60):
        with pytest.raises(DeadlineExceeded, match=r"no reply of the model deaf within 0\.3 s"):
            await Agent("a", model=model, timeout=0.3, idle_timeout=10).run_async("?")
    assert model.sent > 1
    assert model.cancelled.is_set()


@in_virtual_time
async def test_a_slow_model_that_stays_at_work_is_not_cut_off() -> None:
    class Slow(DrippingModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            for _ in range(8):
                await asyncio.sleep(self.pause)
                yield ModelChunk(text_delta="word ")
            yield ModelChunk(reply=says("all of it"))

    # The reply takes longer than the silence that is allowed.
    request = ModelRequest(REQUEST.messages, idle_timeout=0.4)
    assert (await deadline.generate(Slow(0.1), request)).text == "all of it"


@in_virtual_time
async def test_a_model_that_swallows_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "GRACE", 0.05)
    model = StubbornModel()
    async with asyncio.timeout(60):
        with pytest.raises(DeadlineExceeded, match="no reply of the model stubborn"):
            await Agent("a", model=model, timeout=0.05).run_async("?")
        assert model.cancelled.is_set()
        [task] = deadline._ending
        model.release.set()
        await asyncio.wait({task})
    assert deadline._ending == set()


@in_virtual_time
async def test_a_cancelled_run_does_not_wait_for_a_stubborn_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "GRACE", 0.05)
    model = StubbornModel()
    run = asyncio.create_task(Agent("a", model=model).run_async("?"))
    async with asyncio.timeout(60):
        await model.started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        model.release.set()
        await asyncio.wait(deadline._ending)


@in_virtual_time
async def test_calls_are_refused_while_too_many_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "GRACE", 0.01)
    monkeypatch.setattr(deadline, "MAX_ABANDONED", 2)
    model, request = StubbornModel(), ModelRequest(REQUEST.messages, timeout=0.01)
    async with asyncio.timeout(60):
        for _ in range(2):
            with pytest.raises(DeadlineExceeded):
                await deadline.generate(model, request)
        with pytest.raises(ResourceExhausted, match="2 cancelled model calls have not ended"):
            await deadline.generate(model, request)
        model.release.set()
        await asyncio.wait(set(deadline._ending))
        assert (await deadline.generate(ScriptedModel([says("fine")]), request)).text == "fine"


async def test_a_stream_that_is_not_read_to_its_end_ends_its_client() -> None:
    model = DrippingModel(0)
    async with aclosing(deadline.stream(model, REQUEST)) as chunks:
        assert (await anext(chunks)).text_delta == "drip "
    assert model.cancelled.is_set()


async def test_a_client_that_cancels_itself_is_an_error_of_the_provider() -> None:
    class Cancels(DeafModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(text_delta="half")
            raise asyncio.CancelledError

    with pytest.raises(Unavailable, match="cancelled its own call"):
        await deadline.generate(Cancels(), REQUEST)


async def test_a_stream_without_a_reply_is_unavailable() -> None:
    class Short(DeafModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(text_delta="half")

    with pytest.raises(Unavailable, match="before the reply was complete"):
        await deadline.generate(Short(), REQUEST)


async def test_an_error_that_comes_after_its_reader_left_is_retrieved(caplog: pytest.LogCaptureFixture) -> None:
    class FailingModel(DeafModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(text_delta="half ")
            raise Unavailable("gone")

    stream = deadline.stream(FailingModel(), ModelRequest((ChatMessage("user", "?"),)))
    await anext(stream)
    while any(task.get_name() == "model deaf" for task in asyncio.all_tasks()):  # noqa: ASYNC110 - it ends by itself
        await asyncio.sleep(0)
    await stream.aclose()
    gc.collect()
    await asyncio.sleep(0)
    assert "never retrieved" not in caplog.text
