"""The OpenAI client against a local HTTP server."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import pytest_asyncio

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    UnknownFailure,
)
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ToolSpec, Usage
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.responses import ResponsesModel
from tests.fixtures.openai_server import Answer, OpenAIServer, completion

KEY = "secret-0123456789"
HELLO = ModelRequest([ChatMessage("user", "hello there, mesh")], timeout=10)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture
async def model(server: OpenAIServer) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel("some-model", base_url=server.url, api_key=KEY)
    yield model
    await model.close()


async def collect(model: OpenAIModel, request: ModelRequest = HELLO) -> list[ModelChunk]:
    return [step async for step in model.stream(request)]


async def test_reply_has_text_usage_model_and_reason(model: OpenAIModel) -> None:
    reply = await model.generate(HELLO)
    assert reply == ModelReply("echo: hello there, mesh", (), Usage(7, 3), "served-model", "stop")


async def test_request_is_sent_completely(model: OpenAIModel, server: OpenAIServer) -> None:
    call = ToolCall("call_1", "add", '{"a": 1}')
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    request = ModelRequest(
        [
            ChatMessage("system", "be brief", metadata={"shared_memory": True}),
            ChatMessage("user", "add", name="kim"),
            ChatMessage("assistant", tool_calls=(call,)),
            ChatMessage("tool", "2", tool_call_id="call_1"),
        ],
        tools=[ToolSpec("add", "adds", schema)],
        temperature=0.0,
        max_tokens=9,
    )
    await model.generate(request)
    function = {"name": "add", "description": "adds", "parameters": schema}
    [received] = server.received
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body == {
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "add", "name": "kim"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                ],
            },
            {"role": "tool", "content": "2", "tool_call_id": "call_1"},
        ],
        "tools": [{"type": "function", "function": function}],
        "temperature": 0.0,
        "max_tokens": 9,
    }


async def test_tool_calls_of_a_reply_are_parsed(model: OpenAIModel, server: OpenAIServer) -> None:
    wire = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [wire]}}
    server.script(Answer(completion({}, choices=[{**choice, "finish_reason": "tool_calls"}])))
    reply = await model.generate(HELLO)
    assert reply.tool_calls == (ToolCall("call_1", "add", "{}"),)
    assert (reply.text, reply.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidArgument),
        (401, Unauthenticated),
        (403, PermissionDenied),
        (404, NotFound),
        (422, InvalidArgument),
        (429, ResourceExhausted),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_each_status_maps_to_its_error_without_the_key(
    model: OpenAIModel, server: OpenAIServer, status: int, kind: type[ArchonError], streamed: bool
) -> None:
    server.script(Answer({"error": {"message": f"refused {KEY} and sk-abc123 by rule 7"}}, status))
    with pytest.raises(kind) as caught:
        await (collect(model) if streamed else model.generate(HELLO))
    assert caught.type is kind
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.metadata)
    assert KEY not in shown
    assert "sk-abc123" not in shown
    assert ("by rule 7" in str(caught.value)) == (status not in (401, 403))
    assert caught.value.metadata == {"http_status": str(status)}
    assert len(server.received) == 1


@pytest.mark.parametrize(("value", "delay"), [("2.5", 2.5), ("nan", None), ("soon", None), ("-3", 0.0)])
async def test_retry_after_in_seconds_becomes_the_retry_delay(
    model: OpenAIModel, server: OpenAIServer, value: str, delay: float | None
) -> None:
    server.script(Answer({"error": {"message": "busy"}}, 429, {"Retry-After": value}))
    with pytest.raises(ResourceExhausted) as caught:
        await model.generate(HELLO)
    assert caught.value.retry_delay == delay


async def test_retry_after_as_a_date_becomes_the_retry_delay(
    model: OpenAIModel,
    server: OpenAIServer,
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    server.script(Answer({"error": {"message": "busy"}}, 429, {"Retry-After": date}))
    with pytest.raises(ResourceExhausted) as caught:
        await model.generate(HELLO)
    assert caught.value.retry_delay == pytest.approx(60, abs=5)


@pytest.mark.parametrize("body", ["<html>a proxy's page</html>", {"choices": []}])
async def test_malformed_completion_is_an_unknown_failure(
    model: OpenAIModel, server: OpenAIServer, body: object
) -> None:
    server.script(Answer(body))
    with pytest.raises(UnknownFailure):
        await model.generate(HELLO)


async def test_refused_connection_is_unavailable() -> None:
    async with OpenAIServer() as server:
        url = server.url
    model = OpenAIModel("some-model", base_url=url, api_key=KEY)
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    await model.close()


async def test_late_reply_exceeds_the_deadline(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Answer(completion({"content": "late"}), delay=5))
    with pytest.raises(DeadlineExceeded):
        await model.generate(ModelRequest(HELLO.messages, timeout=0.1))


async def test_cancelled_call_stays_a_cancellation(model: OpenAIModel, server: OpenAIServer) -> None:
    server.script(Answer(completion({"content": "late"}), delay=5))
    call = asyncio.create_task(model.generate(HELLO))
    await server.arrived.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_address_and_key_come_from_the_environment(
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    model = OpenAIModel("some-model")
    await model.generate(HELLO)
    await model.close()
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


async def test_another_server_needs_no_key(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = OpenAIModel("some-model", base_url=server.url)
    assert (await model.generate(HELLO)).text == "echo: hello there, mesh"
    await model.close()


@pytest.mark.parametrize("key", ["", " ", "schlüssel", "two\nlines"])
def test_openai_without_a_usable_key_is_rejected(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Unauthenticated):
        OpenAIModel("some-model", api_key=key)


@pytest.mark.parametrize(("base_url", "is_sent"), [(None, True), ("http://127.0.0.1:1/v1", False)])
async def test_openai_alone_is_asked_to_enforce_json(
    base_url: str | None, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    request = replace(HELLO, is_json=True)
    chat, responses = (
        OpenAIModel("m", base_url=base_url, api_key=KEY),
        ResponsesModel("m", base_url=base_url, api_key=KEY),
    )
    try:
        expected = {"type": "json_object"} if is_sent else None
        assert chat._arguments(request).get("response_format") == expected
        text = responses._arguments(request, reasoning=True).get("text")
        assert (text or {}).get("format") == expected
        assert "response_format" not in chat._arguments(HELLO)
    finally:
        await chat.close()
        await responses.close()
