"""The Anthropic client against a local HTTP server."""

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
    MessageTooLarge,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ToolSpec, Usage, create_model, deadline
from archon_mesh.llm.anthropic import MAX_TOKENS, AnthropicModel
from archon_mesh.llm.anthropic_reply import REFUSED
from archon_mesh.llm.retry import is_transient
from tests.fixtures.anthropic_server import (
    AnthropicServer,
    block,
    event,
    failure,
    start,
    stop,
    streamed,
    text,
    thinking,
    tool_use,
)
from tests.fixtures.openai_server import Answer

KEY = "secret-0123456789"
HELLO = ModelRequest([ChatMessage("user", "hello there, mesh")], timeout=10)
CALL = ToolCall("toolu_1", "add", '{"a": 1}')
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer() as server:
        yield server


@pytest_asyncio.fixture
async def model(server: AnthropicServer) -> AsyncIterator[AnthropicModel]:
    model = AnthropicModel("some-model", base_url=server.url, api_key=KEY)
    yield model
    await model.close()


KEPT = {"type": "ephemeral"}


async def collect(model: AnthropicModel, request: ModelRequest = HELLO) -> list[ModelChunk]:
    return [step async for step in model.stream(request)]


async def body_of(model: AnthropicModel, server: AnthropicServer, *messages: ChatMessage, **fields: Any) -> Any:
    """Sends messages and returns the body that the server received."""
    server.script(streamed(text(0, "ok"), stop()))
    await model.generate(ModelRequest(messages, timeout=10, **fields))
    return server.received[-1].body


async def test_stream_yields_text_and_then_the_whole_reply(model: AnthropicModel) -> None:
    steps = await collect(model)
    assert [step.text_delta for step in steps[:-1]] == ["echo:", " hello", " there,", " mesh"]
    assert steps[-1].reply == ModelReply("echo: hello there, mesh", (), Usage(7, 3), "served-model", "stop")
    assert await model.generate(HELLO) == steps[-1].reply


async def test_request_is_sent_completely(model: AnthropicModel, server: AnthropicServer) -> None:
    body = await body_of(
        model,
        server,
        ChatMessage("system", "be brief"),
        ChatMessage("system", "shared"),
        ChatMessage("user", "add"),
        ChatMessage("assistant", "so", tool_calls=(CALL,)),
        ChatMessage("tool", "2", tool_call_id="toolu_1"),
        ChatMessage("system", "last step"),
        tools=[ToolSpec("add", "adds", SCHEMA)],
        temperature=1.5,
        max_tokens=9,
    )
    assert body == {
        "model": "some-model",
        "max_tokens": 9,
        "temperature": 1.0,
        "stream": True,
        "system": [
            {"type": "text", "text": "be brief", "cache_control": KEPT},
            {"type": "text", "text": "shared", "cache_control": KEPT},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "add"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "so"},
                    {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "2"}],
                        "cache_control": KEPT,
                    },
                    {"type": "text", "text": "last step"},
                ],
            },
        ],
        "tools": [{"name": "add", "description": "adds", "input_schema": SCHEMA}],
    }
    [received] = server.received
    assert (received.path, received.headers["authorization"]) == ("/v1/messages", f"Bearer {KEY}")


async def test_a_request_that_no_other_follows_is_not_kept(model: AnthropicModel, server: AnthropicServer) -> None:
    body = await body_of(model, server, ChatMessage("system", "be brief"), ChatMessage("user", "hello"))
    assert "cache_control" not in str(body)


async def test_tools_are_kept_if_there_is_no_prompt(model: AnthropicModel, server: AnthropicServer) -> None:
    body = await body_of(model, server, ChatMessage("user", "add"), tools=[ToolSpec("add", "adds", SCHEMA)])
    assert body["tools"][-1]["cache_control"] == body["messages"][-1]["content"][-1]["cache_control"] == KEPT


async def test_a_history_is_made_to_fit_the_api(model: AnthropicModel, server: AnthropicServer) -> None:
    broken = ToolCall("call:1", "add", '{"a": ')
    body = await body_of(
        model,
        server,
        ChatMessage("assistant", "hi"),
        ChatMessage("user", ""),
        ChatMessage("assistant", "", tool_calls=(broken,)),
        ChatMessage("tool", "", tool_call_id="call:1"),
        ChatMessage("assistant", "done"),
    )
    said = {"type": "text", "text": "Continue."}
    use = {"type": "tool_use", "id": "call_1", "name": "add", "input": {"invalid_json": '{"a": '}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": []}
    assert [(turn["role"], turn["content"]) for turn in body["messages"]] == [
        ("user", [said]),
        ("assistant", [{"type": "text", "text": "hi"}, use]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": "done"}]),
        ("user", [said]),
    ]
    assert body["max_tokens"] == MAX_TOKENS
    assert (body["tools"][0]["name"], body["tool_choice"]) == ("add", {"type": "none"})


async def test_streamed_tool_calls_are_assembled(model: AnthropicModel, server: AnthropicServer) -> None:
    first = tool_use(1, "toolu_1", "math_add", '{"a"', ": 1}")
    server.script(streamed(text(0, "so"), first, tool_use(2, "toolu_2", "now"), stop("tool_use")))
    request = ModelRequest(HELLO.messages, tools=[ToolSpec("math.add", "", SCHEMA), ToolSpec("now", "", {})])
    steps = await collect(model, request)
    deltas = [step.tool_call_delta for step in steps if step.tool_call_delta]
    assert [(delta.index, delta.name, delta.arguments_delta) for delta in deltas] == [
        *((0, "math.add", ""), (0, "", '{"a"'), (0, "", ": 1}"), (1, "now", ""))
    ]
    reply = steps[-1].reply
    assert reply is not None
    assert reply.tool_calls == (ToolCall("toolu_1", "math.add", '{"a": 1}'), ToolCall("toolu_2", "now", "{}"))
    assert (reply.text, reply.finish_reason, reply.provider_state) == ("so", "tool_calls", None)


async def test_thinking_is_streamed_and_sent_back_in_order(model: AnthropicModel, server: AnthropicServer) -> None:
    redacted = block(2, {"type": "redacted_thinking", "data": "xyz"})
    parts = (thinking(0, "let me", "sig1"), text(1, "so"), redacted, tool_use(3, "toolu_1", "add", '{"a": 1}'))
    server.script(streamed(*parts, thinking(4, "", "sig2"), stop("tool_use")))
    steps = await collect(model)
    assert "".join(step.thinking_delta for step in steps) == "let me"
    reply = steps[-1].reply
    assert reply is not None and reply.text == "so"
    results = ChatMessage("tool", "2", tool_call_id="toolu_1")
    body = await body_of(model, server, *HELLO.messages, reply.message(), results)
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "let me", "signature": "sig1"},
        {"type": "text", "text": "so"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
        {"type": "thinking", "thinking": "", "signature": "sig2"},
    ]
    changed = ChatMessage("assistant", "edited", tool_calls=(CALL,), metadata=reply.message().metadata)
    body = await body_of(model, server, *HELLO.messages, changed, results)
    assert [part["type"] for part in body["messages"][1]["content"]] == ["text", "tool_use"]


async def test_refused_thinking_is_left_out_of_a_second_request(model: AnthropicModel, server: AnthropicServer) -> None:
    server.script(streamed(thinking(0, "let me", "sig1"), tool_use(1, "toolu_1", "add", "{}"), stop("tool_use")))
    said = (await model.generate(HELLO)).message()
    bound = "messages.1.content.0: Invalid `signature` in `thinking` block"
    server.script(failure("invalid_request_error", bound, 400), streamed(text(0, "ok"), stop()))
    request = ModelRequest([*HELLO.messages, said, ChatMessage("tool", "2", tool_call_id="toolu_1")], timeout=10)
    assert (await model.generate(request)).text == "ok"
    assert [part["type"] for part in server.received[-1].body["messages"][1]["content"]] == ["tool_use"]
    server.script(failure("invalid_request_error", "other", 400))
    with pytest.raises(InvalidArgument, match="other"):
        await model.generate(request)
    server.script(failure("invalid_request_error", bound, 400))
    with pytest.raises(InvalidArgument, match="thinking"):
        await model.generate(HELLO)
    assert len(server.received) == 5


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("something new", "stop"),
    ],
)
async def test_stop_reasons_are_those_of_the_framework(
    model: AnthropicModel, server: AnthropicServer, reason: str, finish: str
) -> None:
    server.script(streamed(text(0, "a"), stop(reason)))
    assert (await model.generate(HELLO)).finish_reason == finish


@pytest.mark.parametrize("explanation", ["It is not allowed.", None])
async def test_a_refusal_is_a_reply_that_says_so(
    model: AnthropicModel, server: AnthropicServer, explanation: str | None
) -> None:
    details = {"type": "refusal", "category": None, "explanation": explanation}
    server.script(streamed(stop("refusal", stop_details=details)))
    reply = await model.generate(HELLO)
    assert (reply.text, reply.finish_reason) == (explanation or REFUSED, "content_filter")


async def test_usage_includes_the_cache_and_has_a_cost(server: AnthropicServer) -> None:
    model = AnthropicModel("claude-opus-5-5", base_url=server.url)
    usage = {"input_tokens": 100, "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 200}
    server.script(Answer(events=[start(**usage), *text(0, "a"), *stop()], end="silent"))
    reply = await model.generate(HELLO)
    await model.close()
    assert reply.usage == Usage(1_300, 3, False, 1_000, 200, 400 + 200 + 1_000 + 60)


@pytest.mark.parametrize(
    ("status", "kind", "error", "transient"),
    [
        (400, "invalid_request_error", InvalidArgument, False),
        (401, "authentication_error", Unauthenticated, False),
        (403, "permission_error", PermissionDenied, False),
        (404, "not_found_error", NotFound, False),
        (413, "request_too_large", MessageTooLarge, False),
        (429, "rate_limit_error", ResourceExhausted, True),
        (500, "api_error", Unavailable, True),
        (529, "overloaded_error", Unavailable, True),
    ],
)
async def test_each_status_maps_to_its_error_without_the_key(
    model: AnthropicModel, server: AnthropicServer, status: int, kind: str, error: type[ArchonError], transient: bool
) -> None:
    server.script(failure(kind, f"refused {KEY} and sk-ant-abc by rule 7", status, retry_after="2"))
    with pytest.raises(error) as caught:
        await collect(model)
    assert caught.type is error
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.metadata)
    assert KEY not in shown and "sk-ant-abc" not in shown
    assert ("by rule 7" in str(caught.value)) == (status not in (401, 403))
    assert caught.value.metadata == {"http_status": str(status), "code": kind}
    assert caught.value.retry_delay == (2.0 if status in (429, 529) else None)
    assert is_transient(caught.value) is transient
    assert caught.value.kind == {500: "model.provider", 529: "model.provider"}.get(status, caught.value.kind)
    assert len(server.received) == 1


async def test_a_prompt_that_is_too_long_is_a_context_overflow(model: AnthropicModel, server: AnthropicServer) -> None:
    server.script(failure("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", 400))
    with pytest.raises(InvalidArgument) as caught:
        await collect(model)
    assert caught.value.kind == "model.context_overflow"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", Unavailable),
        ("api_error", Unavailable),
        ("rate_limit_error", ResourceExhausted),
        ("invalid_request_error", InvalidArgument),
    ],
)
async def test_an_error_event_in_a_stream_is_raised_as_its_type(
    model: AnthropicModel, server: AnthropicServer, kind: str, error: type[ArchonError]
) -> None:
    broken = event("error", error={"type": kind, "message": "it broke"})
    server.script(streamed(text(0, "half"), broken))
    with pytest.raises(error, match="it broke") as caught:
        await collect(model)
    assert is_transient(caught.value) is (error is not InvalidArgument)


@pytest.mark.parametrize("end", ["cut", "silent"])
async def test_a_stream_that_stops_half_way_is_unavailable(
    model: AnthropicModel, server: AnthropicServer, end: str
) -> None:
    server.script(streamed(text(0, "half a"), end=end))
    stream = model.stream(HELLO)
    assert (await anext(stream)).text_delta == "half a"
    with pytest.raises(Unavailable) as caught:
        await anext(stream)
    assert caught.value.kind == "model.provider"


@pytest.mark.parametrize(
    "malformed",
    [
        "event: message_delta\ndata: {not json\n\n",
        event("content_block_start", index=0, content_block=7),
        event("content_block_start"),
        Answer("<html>a proxy's page</html>"),
    ],
)
async def test_a_malformed_stream_is_unavailable(
    model: AnthropicModel, server: AnthropicServer, malformed: str | Answer
) -> None:
    server.script(malformed if isinstance(malformed, Answer) else streamed(malformed, stop()))
    with pytest.raises(Unavailable):
        await collect(model)


async def test_a_stream_that_falls_silent_ends(model: AnthropicModel, server: AnthropicServer) -> None:
    server.script(streamed(text(0, "a"), delay=5))
    with pytest.raises(DeadlineExceeded, match=r"sent no first token for 0\.4 s"):
        await deadline.generate(model, ModelRequest(HELLO.messages, timeout=10, idle_timeout=0.1))


async def test_a_slow_stream_exceeds_the_deadline(model: AnthropicModel, server: AnthropicServer) -> None:
    server.script(streamed(*[text(0, "drip ")] * 100, delay=0.05))
    with pytest.raises(DeadlineExceeded):
        await collect(model, ModelRequest(HELLO.messages, timeout=0.3))


async def test_a_cancelled_call_stays_a_cancellation(model: AnthropicModel, server: AnthropicServer) -> None:
    server.script(streamed(text(0, "late"), delay=5))
    call = asyncio.create_task(model.generate(HELLO))
    await server.arrived.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_refused_connection_is_unavailable() -> None:
    async with AnthropicServer() as server:
        url = server.url
    model = AnthropicModel("some-model", base_url=url)
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    await model.close()


async def test_address_and_key_come_from_the_environment(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\n")
    model = create_model("anthropic/some-model")
    assert (await model.generate(HELLO)).text == "echo: hello there, mesh"
    await model.close()
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_anthropic_without_a_key_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unauthenticated, match="ANTHROPIC_API_KEY"):
        create_model("anthropic/some-model")


async def test_thinking_settings_are_sent_as_given(server: AnthropicServer) -> None:
    settings = {"type": "adaptive", "display": "summarized"}
    model = AnthropicModel("some-model", base_url=server.url, thinking=settings)
    await model.generate(HELLO)
    await model.close()
    assert server.received[0].body["thinking"] == settings
