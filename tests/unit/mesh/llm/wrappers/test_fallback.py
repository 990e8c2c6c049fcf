"""FallbackModel: which client answers, and when an error is raised instead."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from archon.errors import (
    ArchonError,
    BudgetExhausted,
    DeadlineExceeded,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import CONTEXT_OVERFLOW, PROVIDER
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ScriptedModel, Usage, deadline
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.prices import Price
from archon_mesh.llm.wrappers import FallbackModel
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

HELLO = ModelRequest([ChatMessage("user", "hello")], timeout=10)


class Closing(ScriptedModel):
    """Counts how often it is closed."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("down"),
        ResourceExhausted("no quota"),
        UnknownFailure("nonsense"),
        DeadlineExceeded("silent", kind=PROVIDER),
        InvalidArgument("too long", kind=CONTEXT_OVERFLOW),
    ],
)
async def test_the_next_client_answers_after_such_an_error(error: ArchonError) -> None:
    first, second = ScriptedModel([error]), ScriptedModel(["yes"])
    assert (await FallbackModel([first, second]).generate(HELLO)).text == "yes"


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("bad"),
        Unauthenticated("who"),
        PermissionDenied("no"),
        BudgetExhausted("spent"),
        DeadlineExceeded("the task's time is over"),
    ],
)
async def test_other_errors_are_raised(error: ArchonError) -> None:
    second = ScriptedModel(["never"])
    with pytest.raises(type(error)):
        await FallbackModel([ScriptedModel([error]), second]).generate(HELLO)
    assert second.remaining == 1


async def test_the_error_of_the_last_client_is_raised() -> None:
    with pytest.raises(Unavailable, match="b is down"):
        await FallbackModel(
            [ScriptedModel([Unavailable("a is down")]), ScriptedModel([Unavailable("b is down")])]
        ).generate(HELLO)


async def test_a_reply_that_has_begun_is_not_replaced() -> None:
    second = ScriptedModel(["never"])
    async with OpenAIServer() as server:
        server.script(Answer(events=[chunk({"content": "half a"})], end="cut"))
        model = FallbackModel([OpenAIModel("some-model", base_url=server.url), second])
        stream = model.stream(HELLO)
        assert (await anext(stream)).text_delta == "half a"
        with pytest.raises(Unavailable):
            await anext(stream)
        await model.close()
    assert second.remaining == 1


async def test_an_agent_repeats_a_broken_reply_as_another_message() -> None:
    texts: list[str] = []
    async with OpenAIServer() as server:
        server.script(
            Answer(events=[chunk({"content": "half a"})], end="cut"), Answer({"error": {"message": "down"}}, 503)
        )
        model = FallbackModel([OpenAIModel("some-model", base_url=server.url), ScriptedModel(["whole"])])
        agent = Agent("a", model=model, retries=1)
        answer = await agent.run_async("?", event_handlers=[lambda event: texts.append(event.type)])
        await model.close()
    assert answer == "whole"
    assert texts.count("TEXT_MESSAGE_START") == texts.count("TEXT_MESSAGE_END") == 2


async def test_a_silent_client_is_replaced_within_the_idle_timeout() -> None:
    async with OpenAIServer() as server:
        server.script(Answer(events=[chunk({"content": "late"})], delay=20))
        model = FallbackModel([OpenAIModel("some-model", base_url=server.url), ScriptedModel(["yes"])])
        reply = await deadline.generate(model, ModelRequest(HELLO.messages, timeout=20, idle_timeout=0.5))
        await model.close()
    assert reply.text == "yes"


async def test_tool_calls_are_streamed_from_the_one_that_answers() -> None:
    call = ToolCall("1", "add", '{"a": 1}')
    chunks = [
        step async for step in FallbackModel([ScriptedModel([Unavailable("x")]), ScriptedModel([call])]).stream(HELLO)
    ]
    assert next(step.tool_call_delta.name for step in chunks if step.tool_call_delta) == "add"
    assert chunks[-1].reply is not None and chunks[-1].reply.tool_calls == (call,)


async def test_a_stream_without_a_reply_falls_back() -> None:
    class Empty(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            for _ in ():
                yield ModelChunk()

    assert (await FallbackModel([Empty(), ScriptedModel(["yes"])]).generate(HELLO)).text == "yes"


async def test_the_price_bounds_that_of_each_client_and_all_are_closed() -> None:
    class Priced(Closing):
        price = Price(1, 2, 3, 4)

    clients = [Closing(), Priced([ModelReply("x", (), Usage(1, 1), "m", "stop")])]
    model = FallbackModel(clients)
    assert model.price == Price(1, 2, 3, 4)
    await model.close()
    assert [client.closed for client in clients] == [1, 1]


def test_an_empty_chain_is_rejected() -> None:
    with pytest.raises(InvalidArgument):
        FallbackModel([])
