"""The client of OpenAI's responses API against a local HTTP server."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    InvalidArgument,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ToolSpec, Usage, create_model, deadline
from archon_mesh.llm.responses import ResponsesModel
from archon_mesh.llm.retry import is_transient
from tests.fixtures.openai_server import Answer
from tests.fixtures.responses_server import (
    ResponsesServer,
    event,
    function_call,
    reasoning,
    response,
    streamed,
    text,
)

KEY = "secret-0123456789"
HELLO = ModelRequest([ChatMessage("user", "hello there, mesh")], timeout=10)
CALL = ToolCall("call_1", "add", '{"a": 1}')
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
USAGE = Usage(7, 3, cached_input_tokens=2, cache_write_tokens=1)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ResponsesServer]:
    async with ResponsesServer() as server:
        yield server


@pytest_asyncio.fixture
async def model(server: ResponsesServer) -> AsyncIterator[ResponsesModel]:
    model = ResponsesModel("some-model", base_url=server.url, api_key=KEY)
    yield model
    await model.close()


async def collect(model: ResponsesModel, request: ModelRequest = HELLO) -> list[ModelChunk]:
    return [step async for step in model.stream(request)]


async def body_of(model: ResponsesModel, server: ResponsesServer, *messages: ChatMessage, **fields: Any) -> Any:
    """Sends messages and returns the body that the server received."""
    server.script(streamed(text(0, "ok"), response()))
    await model.generate(ModelRequest(messages, timeout=10, **fields))
    return server.received[-1].body


async def test_stream_yields_text_and_then_the_whole_reply(model: ResponsesModel) -> None:
    steps = await collect(model)
    assert [step.text_delta for step in steps[:-1]] == ["echo:", " hello", " there,", " mesh"]
    assert steps[-1].reply == ModelReply("echo: hello there, mesh", (), USAGE, "served-model", "stop")
    assert await model.generate(HELLO) == steps[-1].reply


async def test_request_is_sent_completely(model: ResponsesModel, server: ResponsesServer) -> None:
    body = await body_of(
        model,
        server,
        ChatMessage("system", "be brief"),
        ChatMessage("user", "add"),
        ChatMessage("assistant", "so", tool_calls=(CALL,)),
        ChatMessage("tool", "2", tool_call_id="call_1"),
        tools=[ToolSpec("add", "adds", SCHEMA)],
        temperature=0.5,
        max_tokens=90,
    )
    assert body == {
        "model": "some-model",
        "max_output_tokens": 90,
        "temperature": 0.5,
        "stream": True,
        "store": False,
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": "so"},
            {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "2"},
        ],
        "tools": [{"type": "function", "name": "add", "description": "adds", "parameters": SCHEMA, "strict": False}],
    }
    [received] = server.received
    assert (received.path, received.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")


async def test_streamed_tool_calls_are_assembled(model: ResponsesModel, server: ResponsesServer) -> None:
    first = function_call(1, "call_1", "math_add", '{"a"', ": 1}")
    server.script(streamed(text(0, "so"), first, function_call(2, "call_2", "now", "{}"), response()))
    request = ModelRequest(HELLO.messages, tools=[ToolSpec("math.add", "", SCHEMA), ToolSpec("now", "", {})])
    steps = await collect(model, request)
    deltas = [step.tool_call_delta for step in steps if step.tool_call_delta]
    assert [(delta.index, delta.name, delta.arguments_delta) for delta in deltas] == [
        *((0, "math.add", ""), (0, "", '{"a"'), (0, "", ": 1}"), (1, "now", ""), (1, "", "{}"))
    ]
    reply = steps[-1].reply
    assert reply is not None
    assert reply.tool_calls == (ToolCall("call_1", "math.add", '{"a": 1}'), ToolCall("call_2", "now", "{}"))
    assert (reply.text, reply.finish_reason, reply.provider_state) == ("so", "tool_calls", None)


async def test_calls_that_come_whole_are_read_from_the_last_event(
    model: ResponsesModel, server: ResponsesServer
) -> None:
    added, _, done = function_call(0, "call_1", "add", '{"a": 1}')
    server.script(streamed(added, done, response()), streamed(done, response()))
    assert (await model.generate(HELLO)).tool_calls == (CALL,)
    assert (await model.generate(HELLO)).tool_calls == (CALL,)


async def test_reasoning_is_streamed_and_sent_back_in_order(model: ResponsesModel, server: ResponsesServer) -> None:
    call = function_call(2, "call_1", "add", '{"a": 1}')
    server.script(streamed(reasoning(0, "let", "me"), text(1, "so", phase="commentary"), call, response()))
    steps = await collect(model)
    assert "".join(step.thinking_delta for step in steps) == "let\n\nme"
    reply = steps[-1].reply
    assert reply is not None and reply.text == "so"
    body = await body_of(
        model, server, *HELLO.messages, reply.message(), ChatMessage("tool", "2", tool_call_id="call_1")
    )
    summary = [{"type": "summary_text", "text": part} for part in ("let", "me")]
    assert body["input"][1:] == [
        {"type": "reasoning", "id": "rs0", "summary": summary, "encrypted_content": "xyz"},
        {"type": "message", "role": "assistant", "content": "so", "phase": "commentary"},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "2"},
    ]
    changed = ChatMessage("assistant", "edited", metadata=reply.message().metadata)
    body = await body_of(model, server, *HELLO.messages, changed)
    assert body["input"][1:] == [{"role": "assistant", "content": "edited"}]


async def test_refused_reasoning_is_left_out_of_a_second_request(
    model: ResponsesModel, server: ResponsesServer
) -> None:
    server.script(streamed(reasoning(0, "a"), text(1, "so"), response()))
    said = (await model.generate(HELLO)).message()
    refused = Answer({"error": {"message": "The encrypted content rs0 could not be verified."}}, 400)
    server.script(refused, streamed(text(0, "ok"), response()))
    request = ModelRequest([*HELLO.messages, said, *HELLO.messages], timeout=10)
    assert (await model.generate(request)).text == "ok"
    assert [item.get("type") for item in server.received[-1].body["input"]] == [None, "message", None]
    server.script(refused)
    with pytest.raises(InvalidArgument):
        await model.generate(HELLO)
    assert len(server.received) == 4


async def test_a_refusal_is_a_reply_that_says_so(model: ResponsesModel, server: ResponsesServer) -> None:
    server.script(streamed(text(0, "I can", "not.", kind="refusal"), response()))
    reply = await model.generate(HELLO)
    assert (reply.text, reply.finish_reason) == ("I cannot.", "content_filter")


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")])
async def test_an_incomplete_response_is_a_reply_with_its_reason(
    model: ResponsesModel, server: ResponsesServer, reason: str, finish: str
) -> None:
    server.script(streamed(text(0, "half"), response("incomplete", incomplete_details={"reason": reason})))
    reply = await model.generate(HELLO)
    assert (reply.text, reply.finish_reason) == ("half", finish)


async def test_missing_usage_is_estimated(model: ResponsesModel, server: ResponsesServer) -> None:
    server.script(streamed(text(0, "12345678"), response(usage=None)))
    assert (await model.generate(HELLO)).usage == Usage(5, 2, estimated=True)


async def test_usage_has_a_cost(server: ResponsesServer) -> None:
    model = ResponsesModel("gpt-6-sol", base_url=server.url)
    assert (await model.generate(HELLO)).usage.cost_micro_usd == 41  # 4 x 2 + 2 x 0.2 + 1 x 2.5 + 3 x 10, rounded up
    await model.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("server_error", Unavailable),
        ("rate_limit_exceeded", ResourceExhausted),
        ("invalid_prompt", InvalidArgument),
    ],
)
@pytest.mark.parametrize("is_failed_response", [False, True])
async def test_an_error_event_is_raised_as_its_type(
    model: ResponsesModel, server: ResponsesServer, code: str, error: type[ArchonError], is_failed_response: bool
) -> None:
    message = f"it broke with {KEY}"
    broken = event("error", code=code, message=message, param=None)
    if is_failed_response:
        broken = response("failed", error={"code": code, "message": message})
    server.script(streamed(text(0, "half"), broken))
    with pytest.raises(error, match="it broke") as caught:
        await collect(model)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert is_transient(caught.value) is (error is not InvalidArgument)


async def test_an_overflow_of_the_context_has_its_kind(model: ResponsesModel, server: ResponsesServer) -> None:
    error = {"code": "context_length_exceeded", "message": "too long"}
    server.script(Answer({"error": error}, 400), streamed(response("failed", error=error)))
    for _ in range(2):
        with pytest.raises(InvalidArgument) as caught:
            await collect(model)
        assert caught.value.kind == "model.context_overflow"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_statuses_are_those_of_chat_completions(
    model: ResponsesModel, server: ResponsesServer, status: int
) -> None:
    server.script(Answer({"error": {"message": "busy"}}, status, {"Retry-After": "2"}))
    with pytest.raises(ResourceExhausted if status == 429 else Unavailable) as caught:
        await collect(model)
    assert caught.value.retry_delay == (None if status == 500 else 2.0)


@pytest.mark.parametrize("end", ["cut", "silent"])
async def test_a_stream_that_stops_half_way_is_unavailable(
    model: ResponsesModel, server: ResponsesServer, end: str
) -> None:
    server.script(streamed(text(0, "half a"), end=end))
    with pytest.raises(Unavailable) as caught:
        await collect(model)
    assert caught.value.kind == "model.provider"


@pytest.mark.parametrize(
    "malformed",
    [
        "event: x\ndata: {not json\n\n",
        event("response.output_item.added"),
        event("response.function_call_arguments.delta", output_index=3, delta="x"),
        event("response.output_text.delta", output_index=0, delta=7),
        Answer("<html>a proxy's page</html>"),
    ],
)
async def test_a_malformed_stream_is_unavailable(
    model: ResponsesModel, server: ResponsesServer, malformed: str | Answer
) -> None:
    server.script(malformed if isinstance(malformed, Answer) else streamed(malformed, response()))
    with pytest.raises(Unavailable):
        await collect(model)


async def test_a_stream_that_falls_silent_ends(model: ResponsesModel, server: ResponsesServer) -> None:
    server.script(streamed(text(0, "a"), delay=5))
    with pytest.raises(DeadlineExceeded, match=r"sent no first token for 0\.4 s"):
        await deadline.generate(model, ModelRequest(HELLO.messages, timeout=10, idle_timeout=0.1))


async def test_a_cancelled_call_stays_a_cancellation(model: ResponsesModel, server: ResponsesServer) -> None:
    server.script(streamed(text(0, "late"), delay=5))
    call = asyncio.create_task(model.generate(HELLO))
    await server.arrived.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_address_and_key_come_from_the_environment(
    server: ResponsesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = create_model("openai-responses/some-model")
    assert (await model.generate(HELLO)).text == "echo: hello there, mesh"
    await model.close()


def test_openai_without_a_key_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unauthenticated):
        create_model("openai-responses/some-model")


async def test_reasoning_settings_are_sent_as_given(server: ResponsesServer) -> None:
    model = ResponsesModel("some-model", base_url=server.url, reasoning={"summary": "auto"})
    await model.generate(HELLO)
    await model.close()
    assert server.received[0].body["reasoning"] == {"summary": "auto"}
